import { common, createLowlight } from 'lowlight'
import { type ComponentChild, h } from 'preact'

const lowlight = createLowlight(common)

/** The most letters to colour: a longer line would be slow to colour with each token. Other code comes in pieces. */
const longest = 20_000

/** The most letters without a named language: trying every language takes longer. */
const longestUnnamed = 4000
const frequent = ['javascript', 'python', 'bash', 'json', 'xml', 'sql']
/** The lowest relevance at which a guessed language is taken; below, the code stays plain text. */
const surely = 5

type Tree = ReturnType<typeof lowlight.highlight>['children'][number]

/** Code as elements with classes; undefined if it is too long or its language is unknown. */
export function highlight(text: string, language: string): ComponentChild | undefined {
  const name = language.toLowerCase()
  if (name === '' && text.length <= longestUnnamed) return guessed(text)
  if (text.length > longest || !lowlight.registered(name)) return undefined
  return lowlight.highlight(name, text).children.map(toElement)
}

/** Code in the colours of its most likely language; undefined if none is likely. */
function guessed(text: string): ComponentChild | undefined {
  const { data, children } = lowlight.highlightAuto(text, { subset: frequent })
  return (data?.relevance ?? 0) < surely ? undefined : children.map(toElement)
}

function toElement(node: Tree): ComponentChild {
  if (node.type === 'text') return node.value
  if (node.type !== 'element') return null
  const { className } = node.properties
  const names = Array.isArray(className) ? className.join(' ') : ''
  return h('span', { class: names }, node.children.map(toElement))
}
