// Tasks with their answers: code rewritten with one name changed, quotes of a text, and prose that
// does not repeat. Made from this repository's own sources and documents.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')
/** `perKind` of each kind, at most 15, as `{ kind, prompt, answer }`. */
export async function speculationTasks(perKind = 15) {
  const sources = await filesOf('packages/core/src', '.ts')
  const documents = (await filesOf('docs', '.md')).map((text) => paragraphs(text)).flat()
  return [
    ...sources.flatMap(rewriteOf).slice(0, perKind),
    ...documents.map((text, index) => quoteOf(text, documents[index + 1])).slice(0, perKind),
    ...documents.slice(20, 20 + perKind).map(storyOf),
  ]
}

async function filesOf(folder, ending) {
  const names = await readdir(join(root, folder), { recursive: true })
  const wanted = names.filter((name) => name.endsWith(ending)).toSorted()
  return Promise.all(wanted.map((name) => readFile(join(root, folder, name), 'utf8')))
}

/** Plain text of 45 to 120 words: no code, tables or lists. */
function paragraphs(markdown) {
  return markdown
    .split(/\n{2,}/)
    .filter((text) => /^[A-Z]/.test(text) && !/[|{}]|```/.test(text))
    .map((text) => text.replaceAll(/\s+/g, ' '))
    .filter((text) => between(text.split(' ').length, 45, 120))
}

const between = (value, least, most) => value >= least && value <= most

/** The first function or class of a file with one of its names changed. */
function rewriteOf(source) {
  const code = /\n((?:export )?(?:function|class) [\s\S]*?\n\})/.exec(source)?.[1]
  if (code === undefined || !between(code.length, 500, 1800)) return []
  const counts = new Map()
  for (const [name] of code.matchAll(/\b[a-z][A-Za-z]{3,}\b/g)) {
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const words = new Set(['function', 'const', 'return', 'this', 'number', 'readonly', 'export'])
  const [name] = [...counts].filter(([word]) => !words.has(word)).toSorted((a, b) => b[1] - a[1])[0]
  const other = `${name}Value`
  const prompt = `Rename ${name} to ${other} in this code and change nothing else.\n\n${code}\n\nAnswer:\n`
  return [
    { kind: 'rewrite', prompt, answer: code.replaceAll(new RegExp(`\\b${name}\\b`, 'g'), other) },
  ]
}

function quoteOf(text, next) {
  const sentences = text.split(/(?<=\.) /)
  const quoted = sentences.slice(0, Math.ceil((2 * sentences.length) / 3)).join(' ')
  const prompt = `${text}\n\n${next}\n\nWhat does the first text say? Quote it.\n\nAnswer: `
  return {
    kind: 'quote',
    prompt,
    answer: `The text says it in so many words: "${quoted}" No more.`,
  }
}

function storyOf(text) {
  const first = text.split(' ').slice(0, 6).join(' ')
  return {
    kind: 'story',
    prompt: `Go on with this text.\n\n${first}`,
    answer: text.slice(first.length),
  }
}
