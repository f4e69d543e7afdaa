# docs/quality.svg from the table of scripts/quality.sh: file size against KL from exact on conversations.
function x_of(mb) { return 70 + (mb - 30) / 30 * 500 }
function y_of(kl) { return 30 + (0 - log(kl) / log(10)) / 5 * 300 }
BEGIN {
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 390\" font-family=\"sans-serif\" font-size=\"12\">"
  print "<rect width=\"640\" height=\"390\" fill=\"white\"/>"
  for (e = 0; e >= -5; e--) {
    y = y_of(10 ^ e)
    printf "<line x1=\"70\" x2=\"570\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"62\" y=\"%.1f\" text-anchor=\"end\">1e%d</text>\n", y, y, y + 4, e
  }
  for (mb = 30; mb <= 60; mb += 5)
    printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"30\" y2=\"330\" stroke=\"#eee\"/><text x=\"%.1f\" y=\"346\" text-anchor=\"middle\">%d</text>\n", x_of(mb), x_of(mb), x_of(mb), mb
  print "<text x=\"320\" y=\"370\" text-anchor=\"middle\">file, MB</text>"
  print "<text x=\"18\" y=\"180\" text-anchor=\"middle\" transform=\"rotate(-90 18 180)\">KL from exact, nats a token</text>"
  print "<text x=\"70\" y=\"18\">Nano: what a recipe saves and what it costs, on conversations</text>"
}
$8 > 0 {
  printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#1f5fa8\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x_of($2 / 1e6), y_of($8),
    x_of($2 / 1e6) + 7, y_of($8) + ($1 ~ /imatrix/ ? 14 : -4), $1
}
END { print "</svg>" }
