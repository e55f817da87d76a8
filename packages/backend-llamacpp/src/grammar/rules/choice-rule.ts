import { type GbnfWriter, literal } from '../gbnf/gbnf-writer.js'

/**
 * One of several texts as GBNF, with what texts begin with in common written once: llama.cpp follows
 * each alternative by itself.
 */
export function choiceRule(writer: GbnfWriter, texts: readonly string[]): string {
  return rest(
    writer,
    [...new Set(texts)].map((text) => Array.from(text)),
    0,
  )
}

/** What the texts have from the character `from` on; up to there they are the same. */
function rest(writer: GbnfWriter, texts: readonly (readonly string[])[], from: number): string {
  const groups = new Map<string, (readonly string[])[]>()
  for (const text of texts) {
    const first = text[from] ?? ''
    const others = groups.get(first)
    if (others === undefined) groups.set(first, [text])
    else others.push(text)
  }
  const parts = [...groups].map(([first, group]) => {
    if (first === '') return '""'
    let end = from + 1
    while (group.length > 1 && group.every((text) => text[end] === group[0]?.[end])) end++
    if (group.length === 1) return literal(group[0]!.slice(from).join(''))
    return `${literal(group[0]!.slice(from, end).join(''))} ${writer.rule(rest(writer, group, end))}`
  })
  return parts.join(' | ')
}
