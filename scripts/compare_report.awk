# The report of scripts/compare_llama.sh: a Markdown table on standard output, a chart in the file `svg`.
# Input: model threads round engine prefill decode load, separated by tabs.
BEGIN { FS = "\t"; kinds[1] = "prefill"; kinds[2] = "decode" }
{
  row = $1 SUBSEP $2
  if (!(row in seen)) { seen[row] = 1; order[++n_rows] = row; model[row] = $1; threads[row] = $2 }
  rate[row, "prefill", $4, $3] = $5
  rate[row, "decode", $4, $3] = $6
  if ($3 > rounds[row]) rounds[row] = $3
  load[row, ++loads[row]] = $7
}

# Fills sorted[1..n] and returns n; kind is a rate of an engine, or "ratio" of both in each round.
function collect(row, kind, engine,    r, n, i, v, a, b) {
  n = 0
  for (r = 1; r <= rounds[row]; r++) {
    a = rate[row, kind, "ds4", r]; b = rate[row, kind, "llama.cpp", r]
    v = engine == "ratio" ? (a > 0 && b > 0 ? a / b : 0) : rate[row, kind, engine, r]
    if (v <= 0) continue
    for (i = ++n; i > 1 && sorted[i - 1] > v; i--) sorted[i] = sorted[i - 1]
    sorted[i] = v
  }
  return n
}
function median(n) { return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2 }
function number(v) { return sprintf(v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.2f", v) }
function cell(row, kind, engine,    n) {
  n = collect(row, kind, engine)
  return n == 0 ? "-" : number(median(n)) " (" number(sorted[1]) "-" number(sorted[n]) ")"
}
function load_range(row,    i, low, high) {
  low = high = load[row, 1]
  for (i = 2; i <= loads[row]; i++) {
    if (load[row, i] < low) low = load[row, i]
    if (load[row, i] > high) high = load[row, i]
  }
  return number(low) "-" number(high)
}

END {
  while ((getline line < facts) > 0) said = said (said == "" ? "" : "; ") line
  print ""
  print said "."
  print ""
  print "![ratios](compare.svg)"
  print ""
  print "Tokens a second: median (range) of the rounds; prefill of " prompt " tokens, decode of " answer " behind them. The ratio is"
  print "ds4 over llama.cpp, its range that of single rounds."
  print ""
  print "| model | threads | rounds | | ds4 | llama.cpp | ratio | load average |"
  print "|---|---|---|---|---|---|---|---|"
  for (i = 1; i <= n_rows; i++) {
    row = order[i]
    for (k = 1; k <= 2; k++)
      print "| " model[row] " | " threads[row] " | " rounds[row] " | " kinds[k] " | " cell(row, kinds[k], "ds4") " | " \
        cell(row, kinds[k], "llama.cpp") " | " cell(row, kinds[k], "ratio") " | " load_range(row) " |"
  }
  print ""
  chart()
}

# Bars of the ratios from 1, where both are as fast, on an axis of powers of two: a line shows the range of rounds.
function x_of(ratio) { return 200 + (log(ratio) / log(2) - lowest) / (highest - lowest) * 380 }
function floor_log2(v,    e) { e = int(log(v) / log(2) + 64) - 64; return e }
function chart(    i, k, row, n, y, height, m, e, from, to) {
  lowest = -1; highest = 2
  for (i = 1; i <= n_rows; i++)
    for (k = 1; k <= 2; k++) {
      n = collect(order[i], kinds[k], "ratio")
      if (!n) continue
      if (floor_log2(sorted[1]) < lowest) lowest = floor_log2(sorted[1])
      if (floor_log2(sorted[n]) + 1 > highest) highest = floor_log2(sorted[n]) + 1
    }
  height = 90 + 46 * n_rows
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 " height "\" font-family=\"sans-serif\" font-size=\"12\">" > svg
  print "<style>" > svg
  print ".paper { fill: #ffffff } .ink { fill: #1f2328 } .grid { stroke: #d8dee4 } .range, .one { stroke: #1f2328 }" > svg
  print ".prefill { fill: #1f5fa8 } .decode { fill: #b35900 }" > svg
  print "@media (prefers-color-scheme: dark) {" > svg
  print "  .paper { fill: #0d1117 } .ink { fill: #e6edf3 } .grid { stroke: #30363d } .range, .one { stroke: #e6edf3 }" > svg
  print "  .prefill { fill: #6cb6ff } .decode { fill: #f0883e }" > svg
  print "}" > svg
  print "</style>" > svg
  print "<rect class=\"paper\" width=\"640\" height=\"" height "\"/>" > svg
  print "<text class=\"ink\" x=\"16\" y=\"22\" font-size=\"15\">How many times as fast as llama.cpp, same file</text>" > svg
  print "<rect class=\"prefill\" x=\"16\" y=\"34\" width=\"10\" height=\"10\"/><text class=\"ink\" x=\"32\" y=\"43\">prefill of " prompt "</text>" > svg
  print "<rect class=\"decode\" x=\"136\" y=\"34\" width=\"10\" height=\"10\"/><text class=\"ink\" x=\"152\" y=\"43\">decode of " answer "; lines show the range of single rounds</text>" > svg
  for (e = lowest; e <= highest; e++)
    printf "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"56\" y2=\"%d\"/><text class=\"ink\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", \
      e == 0 ? "one" : "grid", x_of(2 ^ e), x_of(2 ^ e), height - 28, x_of(2 ^ e), height - 12, 2 ^ e > svg
  for (i = 1; i <= n_rows; i++) {
    row = order[i]
    y = 62 + 46 * (i - 1)
    printf "<text class=\"ink\" x=\"192\" y=\"%d\" text-anchor=\"end\">%s, %d thread%s</text>\n", y + 20, model[row], threads[row], threads[row] == 1 ? "" : "s" > svg
    for (k = 1; k <= 2; k++) {
      n = collect(row, kinds[k], "ratio")
      if (!n) continue
      m = median(n)
      from = x_of(m < 1 ? m : 1); to = x_of(m < 1 ? 1 : m)
      printf "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"14\"/>", kinds[k], from, y + 16 * (k - 1), to - from > svg
      printf "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x_of(sorted[1]), x_of(sorted[n]), y + 16 * k - 9, y + 16 * k - 9 > svg
      printf "<text class=\"ink\" x=\"%.1f\" y=\"%d\">%s</text>\n", (x_of(sorted[n]) > to ? x_of(sorted[n]) : to) + 6, y + 16 * k - 5, number(m) > svg
    }
  }
  print "</svg>" > svg
}
