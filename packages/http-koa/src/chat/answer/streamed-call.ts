import { JsonScanner } from './json-scanner.js'

/** What a piece of text brought a call. */
export interface CallProgress {
  /** More of the arguments. */
  readonly text: string
  /** What follows the call, once it is over. */
  readonly rest?: string
}

const closings: Readonly<Record<string, string>> = {
  '<tool_call>': '</tool_call>',
  '```': '```',
  '[': ']',
}

/** A call whose arguments are passed on while they come. */
export class StreamedCall {
  readonly name: string
  /** What stands behind the call's JSON; empty where nothing does. */
  readonly #closing: string
  readonly #arguments = new JsonScanner()
  /** The object around the arguments, where there is one. */
  readonly #around: JsonScanner | undefined
  #state: 'arguments' | 'around' | 'closing' = 'arguments'
  #held = ''

  private constructor(name: string, opening: string, hasObject: boolean) {
    this.name = name
    const mark = Object.keys(closings).find((mark) => opening.includes(mark)) ?? ''
    this.#closing = closings[mark] ?? ''
    if (!hasObject) return
    this.#around = new JsonScanner()
    this.#around.push('{')
  }

  /**
   * The call at the beginning of a text, when its name is known and its arguments have begun, with the
   * length of what stands before them.
   */
  static open(
    text: string,
    names: ReadonlySet<string>,
  ): { readonly call: StreamedCall; readonly length: number } | undefined {
    const opening = /^\s*(\[TOOL_CALLS\]\s*\[?|<tool_call>|<\|python_tag\|>|```\w*|\[|;)?\s*/.exec(
      text,
    )!
    const inner = text.slice(opening[0].length)
    const object =
      /^\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)/.exec(
        inner,
      )
    const found = object ?? /^([\w.-]+)(?:\[ARGS\])?\s*(?=\{)/.exec(inner)
    const name = found?.[1] ?? ''
    if (found === null || !names.has(name)) return undefined
    const mark = (opening[1] ?? '').replace('[TOOL_CALLS]', '')
    return {
      call: new StreamedCall(name, mark, object !== null),
      length: opening[0].length + found[0].length,
    }
  }

  push(piece: string): CallProgress {
    let text = ''
    this.#held += piece
    if (this.#state === 'arguments') {
      const end = this.#arguments.push(this.#held)
      text = this.#take(end ?? this.#held.length)
      if (end === undefined) return { text }
      this.#state = 'around'
    }
    if (this.#state === 'around') {
      const end = this.#around === undefined ? 0 : this.#around.push(this.#held)
      this.#take(end ?? this.#held.length)
      if (end === undefined) return { text }
      this.#state = 'closing'
    }
    const rest = this.#close()
    return rest === undefined ? { text } : { text, rest }
  }

  #take(length: number): string {
    const taken = this.#held.slice(0, length)
    this.#held = this.#held.slice(length)
    return taken
  }

  /** What follows the mark at the end, or undefined while it may still come. */
  #close(): string | undefined {
    if (this.#closing === '') return this.#held
    const held = this.#held.trimStart()
    this.#held = held
    if (held.startsWith(this.#closing)) return held.slice(this.#closing.length)
    // the rest of a list is a list
    if (this.#closing === ']' && held.startsWith(',')) return `[${held.slice(1)}`
    return this.#closing.startsWith(held) ? undefined : this.#held
  }
}
