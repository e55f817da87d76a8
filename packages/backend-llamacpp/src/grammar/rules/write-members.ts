import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Spend } from '../refuse.js'

/** Something between commas that may be written. */
export interface Member {
  readonly rule: string
  readonly isRequired: boolean
}

/** How many members there are, those without a name included. */
interface Count {
  readonly min: number
  readonly max: number
}

/**
 * Members in their order, each optional one or not, then any number of others, as GBNF; undefined when
 * there is no way to write as many. Rules are made with and without the comma in front, which comes
 * before the choice between members, so that a text has few readings.
 */
export function writeMembers(
  writer: GbnfWriter,
  brackets: readonly [open: string, close: string],
  members: readonly Member[],
  other: string | undefined,
  count: Count,
  spend: Spend,
): string | undefined {
  const list = new MemberList(writer, members, other, count, spend)
  const first = list.next(0, 0)
  const [open, close] = brackets
  if (!list.canEnd(0, 0)) return first && `"${open}" ws ${first} ws "${close}"`
  return first === undefined ? `"${open}${close}"` : `"${open}" ws (${first} ws)? "${close}"`
}

class MemberList {
  readonly #known = new Map<string, string | undefined>()
  /** Where the last required member is. */
  readonly #lastRequired: number

  constructor(
    private readonly writer: GbnfWriter,
    private readonly members: readonly Member[],
    private readonly other: string | undefined,
    private readonly count: Count,
    private readonly spend: Spend,
  ) {
    this.#lastRequired = members.findLastIndex(({ isRequired }) => isRequired)
  }

  /** Whether nothing needs to follow when all members before `index` were seen and `written` of them came. */
  canEnd(index: number, written: number): boolean {
    return written >= this.count.min && index > this.#lastRequired
  }

  /** One member at least, from `index` on; undefined when none can come. */
  next(index: number, written: number): string | undefined {
    const { min, max } = this.count
    if (written >= max) return undefined
    const most = written + (this.other === undefined ? this.members.length - index : Infinity)
    if (most < min) return undefined
    // within the limits it does not matter how many there were
    const key = `${index} ${most <= max ? Math.min(written, min) : written}`
    if (this.#known.has(key)) return this.#known.get(key)
    this.spend(2)
    const rule = this.#next(index, written)
    this.#known.set(key, rule)
    return rule
  }

  #next(index: number, written: number): string | undefined {
    const member = this.members[index]
    if (member === undefined) return this.#others(written)
    const after = this.#after(index + 1, written + 1)
    const here =
      after === undefined ? undefined : this.writer.rule(`${member.rule} ${after}`.trimEnd())
    const without = member.isRequired ? undefined : this.next(index + 1, written)
    if (here === undefined) return without
    return without === undefined ? here : this.writer.rule(`${here} | ${without}`)
  }

  /** What follows a member; empty: nothing. */
  #after(index: number, written: number): string | undefined {
    const next = this.next(index, written)
    const isEnd = this.canEnd(index, written)
    if (next === undefined) return isEnd ? '' : undefined
    return this.writer.rule(isEnd ? `("," ws ${next})?` : `"," ws ${next}`)
  }

  #others(written: number): string | undefined {
    const { other, writer } = this
    const { min, max } = this.count
    // others may all have one name
    if (other === undefined || written + 1 < min) return undefined
    const more = writer.rule(`"," ws ${other}`)
    const rest = writer.repeat(more, 0, max - written - 1)
    return writer.rule(`${other} ${rest}`.trimEnd())
  }
}
