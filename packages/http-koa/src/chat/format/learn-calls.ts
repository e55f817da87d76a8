import {
  type CallFormat,
  anyText,
  toolName,
  commonEnd,
  isTag,
  segmentsOf,
  withoutEnd,
  withoutStart,
} from './chat-format.js'
import { findArguments, parsedAt, type ShownArguments } from './learn-arguments.js'
import { type Turn, probe, probeCalls, type ProbeStyle, probeStyles } from './probe.js'

/** A rendered call: its arguments, or the JSON object with name and arguments. */
interface ShownCall extends ShownArguments {
  /** The index of its name, or of the object. */
  readonly name: number
}

/** The template's format of calls; undefined if it renders none. */
export async function learnCalls(turn: Turn): Promise<CallFormat | undefined> {
  let known: CallFormat | undefined
  for (const style of probeStyles) {
    const found = await learnStyle(turn, style)
    if (found !== undefined && !isPython(found.arguments)) return found
    known ??= found
  }
  return known
}

/** Whether arguments are rendered as a Python dictionary; then arguments as JSON text may be rendered better. */
const isPython = (written: CallFormat['arguments']): boolean =>
  written.kind === 'literal' && written.ends === '}' && written.quote === undefined

async function learnStyle(turn: Turn, style: ProbeStyle): Promise<CallFormat | undefined> {
  const shown = await turn.shown({ content: '', tool_calls: probeCalls(1, style) })
  const call = shown === undefined ? undefined : findCall(shown, 0)
  if (shown === undefined || call === undefined) return undefined
  const said = await turn.shown({ content: probe.content, tool_calls: probeCalls(1, style) })
  const gap = /^\s*/.exec(said?.split(probe.content)[1] ?? '')![0]
  const two = await turn.shown({ content: '', tool_calls: probeCalls(2, style) })
  const first = two === undefined ? undefined : findCall(two, 0)
  const second = two === undefined || first === undefined ? undefined : findCall(two, 1, first.end)
  const general = (text: string) => withoutIds(text, style)
  const before = general(withoutFrame(shown.slice(0, call.name), turn))
  const end = general(withoutEnd(shown.slice(call.end), commonEnd(shown, turn.after)))
  const { format } = call
  if (format.kind === 'object' || format.kind === 'keyed') {
    const mark = before.trim()
    const isList = format.kind === 'object' && mark.endsWith('[')
    return {
      gap,
      section: '',
      head: mark.replace(/\[$/, '').trim(),
      arguments: isList ? { ...format, isList } : format,
      closings: closingsOf(end.replace(/^\s*\]/, ''), ''),
    }
  }
  const between = second === undefined ? before : general(two!.slice(first!.end, second.name))
  const name = probe.tools[0]
  const rest = general(shown.slice(call.name + name.length, call.start))
  const open = commonEnd(before, between)
  const section = before.slice(0, before.length - open.length)
  const closed = between.slice(0, between.length - open.length)
  const behindEach = /^\s*,\s*$/.test(closed) ? [','] : closingsOf(closed, section)
  return {
    gap,
    section: section.trim(),
    head: `${open.trimStart()}${toolName}${rest.trimEnd()}`,
    arguments: format,
    closings: [...new Set([...behindEach, ...closingsOf(end, section)])],
  }
}

function findCall(shown: string, index: 0 | 1, from = 0): ShownCall | undefined {
  const name = probe.tools[index]
  const key = shown.indexOf(probe.keys[0], from)
  const at = key < 0 ? -1 : shown.lastIndexOf(name, key)
  if (at < from) return undefined
  return findObject(shown, at, from, name) ?? behindName(shown, at, name)
}

function behindName(shown: string, at: number, name: string): ShownCall | undefined {
  const found = findArguments(shown, at + name.length)
  return found && { ...found, name: at }
}

/** The JSON object around a call's name, if it also has the arguments. */
function findObject(shown: string, at: number, from: number, name: string): ShownCall | undefined {
  const before = shown.slice(0, at + 1)
  // the outermost object, as some models wrap the call into another object
  for (let start = before.indexOf('{', from); start >= 0; start = before.indexOf('{', start + 1)) {
    const whole = parsedAt(shown, start)
    const format = whole && whole.end >= at ? keysOf(whole.value, name) : undefined
    if (whole && format) return { format, start, end: whole.end, name: start }
  }
  return undefined
}

function keysOf(value: unknown, name: string): ShownArguments['format'] | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const entries = Object.entries(value)
  if (name in value && entries.length === 1) return { kind: 'keyed' }
  const inner = entries.find(([, entry]) => isObjectWith(entry, name))?.[1]
  if (inner !== undefined) return keysOf(inner, name)
  const nameKey = entries.find(([, entry]) => entry === name)?.[0]
  const argumentsKey = entries.find(([, entry]) => isArguments(entry))?.[0]
  if (nameKey === undefined || argumentsKey === undefined) return undefined
  return { kind: 'object', nameKey, argumentsKey }
}

/** Whether it is an object that names the called tool. */
const isObjectWith = (value: unknown, name: string): boolean =>
  typeof value === 'object' && value !== null && Object.values(value).includes(name)

const isArguments = (value: unknown): boolean =>
  (typeof value === 'object' && value !== null && probe.keys[0] in value) ||
  (typeof value === 'string' && value.includes(probe.keys[0]))

/** A rendered text without the frame that plain answers have, too. */
function withoutFrame(text: string, { before, after }: Turn): string {
  if (before === '' || !text.startsWith(before)) return text
  const rest = text.slice(before.length)
  const [closing = ''] = segmentsOf(after)
  return isTag(closing) ? withoutStart(rest, closing) : rest
}

/** The text with placeholders for ids and names of tools, which differ between calls. */
const withoutIds = (text: string, { id }: ProbeStyle): string =>
  [0, 1]
    .reduce((rest, index) => rest.replaceAll(id(index), anyText), text)
    .replaceAll(new RegExp(probe.tools.join('|'), 'g'), anyText)

/** The tags behind a call, each separately, as models leave some out; without tags, the whole text. */
function closingsOf(text: string, section: string): string[] {
  const pieces = segmentsOf(text).filter((piece) => piece.trim() !== '')
  if (pieces.length === 0 || pieces.length > 40) return []
  if (pieces.every((piece) => isTag(piece) && piece !== section.trim())) return pieces
  const tags = pieces.filter(isTag)
  return [text.trim(), ...tags.filter((piece) => /\/|end|close|^`/i.test(piece))]
}
