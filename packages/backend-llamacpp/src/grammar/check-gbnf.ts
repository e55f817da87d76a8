import { refused } from './refuse.js'

/** llama.cpp reads groups recursively, and ends the process where its stack does. */
const deepest = 100
/** llama.cpp takes more repetitions than this for any number. */
const mostRepetitions = 2000
const longest = 400_000

const pieces =
  /(?<skip>[ \t\r\n]+|#[^\r\n]*)|(?<literal>"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|!?<\[\d+\]>)|(?<name>[A-Za-z0-9-]+)(?<defines>[ \t]*::=)?|\{\s*(?<least>\d+)\s*(?:,\s*(?<most>\d*)\s*)?\}|(?<sign>[()|*+?.])/suy

/**
 * Finds what llama.cpp cannot read, would read as something else or could not survive, and says where
 * it is; llama.cpp's own parser only tells that something is wrong.
 * @throws CllmError `invalid_constraint` with line and column
 */
export function checkGbnf(grammar: string, root: string): void {
  if (grammar.length > longest) {
    throw refused(`The grammar has ${grammar.length} characters, at most ${longest} are taken`, {
      limit: longest,
    })
  }
  const defined = new Set<string>()
  const used = new Map<string, number>()
  let depth = 0
  for (pieces.lastIndex = 0; pieces.lastIndex < grammar.length;) {
    const at = pieces.lastIndex
    const groups = pieces.exec(grammar)?.groups
    if (groups === undefined) {
      throw problemAt(grammar, at, `unexpected ${JSON.stringify(grammar.slice(at, at + 12))}`)
    }
    const { name, defines, least, most, sign } = groups
    if (name !== undefined && defines !== undefined) defined.add(name)
    else if (name !== undefined && !used.has(name)) used.set(name, at)
    if (Number(least) > mostRepetitions || Number(most) > mostRepetitions) {
      throw problemAt(grammar, at, `more than ${mostRepetitions} repetitions`)
    }
    if (sign === '(') depth++
    if (sign === ')') depth--
    if (depth < 0) throw problemAt(grammar, at, 'a closing parenthesis without an opening one')
    if (depth > deepest) throw problemAt(grammar, at, `groups are nested deeper than ${deepest}`)
  }
  if (depth > 0) throw problemAt(grammar, grammar.length, 'a parenthesis is not closed')
  for (const [name, at] of used) {
    if (!defined.has(name)) throw problemAt(grammar, at, `there is no rule ${name}`)
  }
  if (!defined.has(root)) throw problemAt(grammar, grammar.length, `there is no rule ${root}`)
}

function problemAt(grammar: string, offset: number, reason: string) {
  const lines = grammar.slice(0, offset).split('\n')
  const [line, column] = [lines.length, (lines.at(-1)?.length ?? 0) + 1]
  return refused(`The grammar cannot be used: line ${line}, column ${column}: ${reason}`, {
    line,
    column,
    reason,
  })
}
