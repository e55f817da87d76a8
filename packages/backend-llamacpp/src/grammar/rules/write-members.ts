import { entryOf } from '@cllm/core'
import type { Amount } from '../gbnf/gbnf-reader.js'
import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Spend } from '../refuse.js'

/** Something between commas that may be written. */
export interface Member {
  readonly rule: string
  readonly isRequired: boolean
}

/**
 * Members in their order, each optional one or not, then any number of others, as GBNF; undefined when
 * there is no way to write as many. Rules are made with and without the comma in front, which comes
 * before the choice between members, so that a text has few readings.
 */
export function writeMembers(
  writer: GbnfWriter,
  [open, close]: readonly [open: string, close: string],
  members: readonly Member[],
  other: string | undefined,
  { min, max }: Amount,
  spend: Spend,
): string | undefined {
  const known = new Map<string, string | undefined>()
  const lastRequired = members.findLastIndex(({ isRequired }) => isRequired)

  /** Whether nothing needs to follow when all members before `index` were seen and `written` of them came. */
  const canEnd = (index: number, written: number): boolean => written >= min && index > lastRequired

  /** One member at least, from `index` on; undefined when none can come. */
  const next = (index: number, written: number): string | undefined => {
    if (written >= max) return undefined
    const most = written + (other === undefined ? members.length - index : Infinity)
    if (most < min) return undefined
    // within the limits it does not matter how many there were
    return entryOf(known, `${index} ${most <= max ? Math.min(written, min) : written}`, () => {
      spend(2)
      const member = members[index]
      return member === undefined ? others(written) : from(member, index, written)
    })
  }

  const from = (member: Member, index: number, written: number): string | undefined => {
    const after = behind(index + 1, written + 1)
    const here = after === undefined ? undefined : writer.rule(`${member.rule} ${after}`.trimEnd())
    const without = member.isRequired ? undefined : next(index + 1, written)
    if (here === undefined) return without
    return without === undefined ? here : writer.rule(`${here} | ${without}`)
  }

  /** What follows a member; empty: nothing. */
  const behind = (index: number, written: number): string | undefined => {
    const more = next(index, written)
    const isEnd = canEnd(index, written)
    if (more === undefined) return isEnd ? '' : undefined
    return writer.rule(isEnd ? `("," ws ${more})?` : `"," ws ${more}`)
  }

  const others = (written: number): string | undefined => {
    // others may all have one name
    if (other === undefined || written + 1 < min) return undefined
    const rest = writer.repeat(writer.rule(`"," ws ${other}`), 0, max - written - 1)
    return writer.rule(`${other} ${rest}`.trimEnd())
  }

  const first = next(0, 0)
  if (!canEnd(0, 0)) return first && `"${open}" ws ${first} ws "${close}"`
  return first === undefined ? `"${open}${close}"` : `"${open}" ws (${first} ws)? "${close}"`
}
