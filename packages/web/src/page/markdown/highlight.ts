import bash from 'highlight.js/lib/languages/bash'
import c from 'highlight.js/lib/languages/c'
import cpp from 'highlight.js/lib/languages/cpp'
import csharp from 'highlight.js/lib/languages/csharp'
import css from 'highlight.js/lib/languages/css'
import diff from 'highlight.js/lib/languages/diff'
import go from 'highlight.js/lib/languages/go'
import ini from 'highlight.js/lib/languages/ini'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import kotlin from 'highlight.js/lib/languages/kotlin'
import lua from 'highlight.js/lib/languages/lua'
import markdown from 'highlight.js/lib/languages/markdown'
import php from 'highlight.js/lib/languages/php'
import python from 'highlight.js/lib/languages/python'
import r from 'highlight.js/lib/languages/r'
import ruby from 'highlight.js/lib/languages/ruby'
import rust from 'highlight.js/lib/languages/rust'
import shell from 'highlight.js/lib/languages/shell'
import sql from 'highlight.js/lib/languages/sql'
import swift from 'highlight.js/lib/languages/swift'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { createLowlight } from 'lowlight'
import { type ComponentChild, h } from 'preact'

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  lua,
  markdown,
  php,
  python,
  r,
  ruby,
  rust,
  shell,
  sql,
  swift,
  typescript,
  xml,
  yaml,
})

/** Longer code would be slow to colour with each token that comes. */
const longest = 20_000

/** Code without a language is tried in each of these, which takes longer. */
const longestUnnamed = 4000
const frequent = ['javascript', 'python', 'bash', 'json', 'xml', 'sql']
/** What is less like a language than this is text. */
const surely = 5

type Tree = ReturnType<typeof lowlight.highlight>['children'][number]

/** Code as elements with classes; undefined where it is too long or its language is not known. */
export function highlight(text: string, language: string): ComponentChild | undefined {
  const name = language.toLowerCase()
  if (name === '' && text.length <= longestUnnamed) return guessed(text)
  if (text.length > longest || !lowlight.registered(name)) return undefined
  return lowlight.highlight(name, text).children.map(toElement)
}

/** In the colours of the language that it looks like; undefined where it looks like none. */
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
