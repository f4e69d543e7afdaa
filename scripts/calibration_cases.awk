# Cases for calibrating Nano, of the kinds it was trained on but with values of their own: JSON lines for
# ds4-eval --render-cases. Passages for questions about a text come from the file given (one a line).
#
#   awk -f scripts/calibration_cases.awk passages.txt > cases.jsonl
function random(n) {  # a fixed generator, so that every awk makes the same cases
  state = (state * 1103 + 12345) % 1048573
  return state % n
}
function pick(list,   a, n) { n = split(list, a, " "); return a[1 + random(n)] }
function emit(kind, think, user, answer) {
  printf "{\"id\": \"cal-%d\", \"kind\": \"%s\", \"think\": %s, \"messages\": [{\"role\": \"user\", \"content\": \"%s\"}], \"expect\": {\"content\": \"%s\"}}\n",
    ++count, kind, think, user, answer
}
function spelled(word,   i, out) {
  for (i = 1; i <= length(word); i++) out = out (i > 1 ? "-" : "") toupper(substr(word, i, 1))
  return out
}
BEGIN {
  state = 7
  names = "Anna Paul Rosa Emil Clara Hugo Irene Oscar Vera Leo"
  cities = "Oslo Lyon Porto Cork Graz Turin Basel Bergen"
  words = "window garden silver pocket winter basket candle meadow"
  for (i = 0; i < 30; i++) {
    a = 3 + random(60); n = 2 + random(5); list = a
    for (j = 1; j <= n; j++) list = list ", " (a + j)
    emit("count", "false", "Count from " a " to " (a + n) ".", list)
    x = 100 + random(800); y = 100 + random(800)
    if (x != y) emit("compare", "false", "Which is larger, " x " or " y "?", (x > y ? x : y) " is larger than " (x > y ? y : x) ".")
    word = pick(words)
    emit("spell", "false", "Spell the word " word ".", spelled(word))
    name = pick(names); age = 18 + random(60); city = pick(cities)
    emit("json", "false", name " is " age " years old and lives in " city ". Give me this as JSON.",
      "{\\\"name\\\": \\\"" name "\\\", \\\"age\\\": " age ", \\\"city\\\": \\\"" city "\\\"}")
    x = 11 + random(30); y = 11 + random(30)
    emit("arithmetic", "true", "What is " x " + " y "?", x " + " y " = " (x + y))
    minutes = 2 + random(50)
    printf "{\"id\": \"cal-%d\", \"kind\": \"tool\", \"think\": false, \"messages\": [{\"role\": \"user\", \"content\": \"Set a timer for %d minutes.\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"set_timer\", \"description\": \"Set a timer in minutes\", \"parameters\": {\"type\": \"object\", \"properties\": {\"minutes\": {\"type\": \"integer\"}}, \"required\": [\"minutes\"]}}}], \"expect\": {\"tool_calls\": [{\"name\": \"set_timer\", \"arguments\": {\"minutes\": %d}}]}}\n", ++count, minutes, minutes
  }
}
{
  gsub(/[\\"\t\r]/, " "); name = pick(names); n = 100 + random(800)
  half = int(length($0) / 2); while (half > 0 && substr($0, half, 1) != " ") half--
  emit("retrieval", "false", "Read this text.\\n\\n" substr($0, 1, half) "The lucky number of " name " is " n "." substr($0, half) \
    "\\n\\nWhat is the lucky number of " name "?", "The lucky number of " name " is " n ".")
}
