import {
  appendFileSync,
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { attempt } from '@cllm/core'
import { isObject, parsedJson } from '../../fields/fields.js'
import { ownFolder } from '../../routes/define-protocol.js'

/** The dimensions by which usage can be grouped. */
export const usageGroups = ['day', 'key', 'tenant', 'model'] as const

/** One of {@link usageGroups}. */
export type UsageGroup = (typeof usageGroups)[number]

/** The counts that are summed. */
export const usageCounts = [
  'requests',
  // requests that failed or whose client left
  'unfinished',
  'promptTokens',
  // prompt tokens that were in the cache
  'cachedTokens',
  'generatedTokens',
] as const

/** A key's usage of a model on a day. The journal's lines have this form, too, for a single request. */
export interface UsageSum extends Readonly<Record<(typeof usageCounts)[number], number>> {
  /** The day in UTC, such as `2026-11-22`. */
  readonly day: string
  /** The name of the API key; null on servers without keys. */
  readonly key: string | null
  readonly tenant: string | null
  readonly model: string
}

/** Adds up usage by groups. */
export class UsageSums {
  readonly #sums = new Map<string, UsageSum>()

  constructor(private readonly groups: readonly UsageGroup[] = usageGroups) {}

  add(one: UsageSum): void {
    const id = this.#idOf(one)
    const before = this.#sums.get(id)
    const counts = usageCounts.map((name) => [name, one[name] + (before?.[name] ?? 0)])
    this.#sums.set(id, { ...(before ?? one), ...(Object.fromEntries(counts) as object) })
  }

  remove(one: UsageSum): void {
    this.#sums.delete(this.#idOf(one))
  }

  all(): readonly UsageSum[] {
    return [...this.#sums.values()]
  }

  #idOf(one: UsageSum): string {
    return JSON.stringify(this.groups.map((group) => one[group]))
  }
}

const monthOf = (day: string): string => day.slice(0, 7)
const fileName = /^(\d{4}-\d\d)\.jsonl$/

/** The content of a month's file that has been read. */
interface ReadMonth {
  readonly sums: UsageSums
  /** Prompt and generated tokens by key: a request with a quota asks for one of many. */
  readonly tokens: Map<string | null, number>
  /** The file's inode, as another server may replace the file. */
  readonly ino: number
  /** The position in bytes up to which the file is in the sums. */
  at: number
}

const tokensIn = (one: UsageSum): number => one.promptTokens + one.generatedTokens

/**
 * Usage in a folder, which servers may share, with a file per month and a line per request. A line is written before
 * the answer ends, so that a crash loses none. Usage that cannot be written, such as on a full disk, waits as sums.
 * Each query reads the lines that any server has written since the last one.
 */
export class UsageJournal {
  readonly #months = new Map<string, ReadMonth>()
  /** Usage that could not be written yet. */
  readonly #unwritten = new UsageSums()

  /** @throws `invalid_configuration` if the folder cannot be used */
  constructor(readonly folder: string) {
    ownFolder(folder, 'usage')
  }

  /** @throws the file system's error; usage that could not be written is written with a later request's */
  add(one: UsageSum): void {
    const month = monthOf(one.day)
    // Reading also shortens the file, and puts a file in the place of a pipe, to which nothing can be appended.
    if (!this.#months.has(month)) attempt(() => this.#read(month))
    this.#unwritten.add(one)
    // The latest day first, so that an earlier month whose file cannot be written holds up no other.
    for (const sum of this.#unwritten.all().toReversed()) {
      this.#append(monthOf(sum.day), sum)
      this.#unwritten.remove(sum)
    }
  }

  #append(month: string, one: UsageSum): void {
    const file = openSync(this.#fileOf(month), 'a+', 0o600)
    try {
      const last = Buffer.from('\n')
      readSync(file, last, 0, 1, Math.max(0, fstatSync(file).size - 1))
      // A full disk, or the end of a process, may have left half a line.
      const begin = last.toString() === '\n' ? '' : '\n'
      appendFileSync(file, `${begin}${JSON.stringify(one)}\n`)
    } finally {
      closeSync(file)
    }
  }

  /** The sums of a month, followed by those that could not be written. */
  month(month: string): readonly UsageSum[] {
    return [...this.#read(month).sums.all(), ...this.#waiting(month)]
  }

  /** The tokens that a key has used in a month. */
  tokensOf(key: string, month: string): number {
    const waiting = this.#waiting(month).filter((one) => one.key === key)
    const read = this.#read(month).tokens.get(key) ?? 0
    return waiting.reduce((sum, one) => sum + tokensIn(one), read)
  }

  #waiting(month: string): readonly UsageSum[] {
    return this.#unwritten.all().filter((one) => monthOf(one.day) === month)
  }

  /** The sums of days, `from` and `to` included, without unreadable months, whose errors `onProblem` gets. */
  days(from: string, to: string, onProblem: (error: unknown) => void): readonly UsageSum[] {
    const read = <T>(work: () => readonly T[]): readonly T[] => {
      try {
        return work()
      } catch (error) {
        onProblem(error)
        return []
      }
    }
    const names = read(() => readdirSync(this.folder))
    const months = names.flatMap((name) => fileName.exec(name)?.[1] ?? [])
    return [...new Set([...months, ...this.#months.keys()])]
      .filter((month) => month >= monthOf(from) && month <= monthOf(to))
      .flatMap((month) => read(() => this.month(month)))
      .filter(({ day }) => day >= from && day <= to)
  }

  /** Reads the rest of a month's file. If that fails, the next query tries again. */
  #read(month: string): ReadMonth {
    const known = this.#months.get(month)
    return known ? attempt(() => this.#readNew(month, known), known) : this.#readNew(month)
  }

  #readNew(month: string, known?: ReadMonth): ReadMonth {
    const file = this.#fileOf(month)
    const found = statSync(file, { throwIfNoEntry: false })
    const { size = 0, ino = 0 } = found ?? {}
    // A file that is gone may come back.
    const isSame = known && (found === undefined || (ino === known.ino && size >= known.at))
    const read = isSame ? known : { sums: new UsageSums(), tokens: new Map(), ino, at: 0 }
    if (size > read.at) read.at += addLines(file, read)
    this.#months.set(month, read)
    if (found !== undefined && known === undefined) this.#shorten(month, read)
    return read
  }

  /** Replaces a month's lines by their sums, if there is space and no other server writes the file or replaces it. */
  #shorten(month: string, { sums, ino, at }: ReadMonth): void {
    const file = this.#fileOf(month)
    const shorter = `${file}.new`
    try {
      const lines = sums.all().map((sum) => `${JSON.stringify(sum)}\n`)
      writeFileSync(shorter, lines.join(''), { mode: 0o600, flag: 'wx' })
      const now = statSync(file)
      if (now.ino !== ino || now.size !== at) throw new Error('it has grown')
      renameSync(shorter, file)
    } catch {
      // The longer file has the same content.
      rmSync(shorter, { recursive: true, force: true })
    }
  }

  #fileOf(month: string): string {
    return join(this.folder, `${month}.jsonl`)
  }
}

const blockBytes = 1 << 18

const isSum = (line: unknown): line is UsageSum =>
  isObject(line) &&
  typeof line['day'] === 'string' &&
  usageCounts.every((name) => typeof line[name] === 'number')

/** Adds the lines from `at` on, and returns their bytes. Reads blocks, as a single text could become too long. */
function addLines(file: string, { sums, tokens, at: from }: ReadMonth): number {
  const add = (line: string): boolean => {
    const one = parsedJson(line)
    // An incomplete line that a crash has left, or one of another program.
    if (!isSum(one)) return false
    sums.add(one)
    tokens.set(one.key, (tokens.get(one.key) ?? 0) + tokensIn(one))
    return true
  }
  const descriptor = openSync(file, 'r')
  try {
    const block = Buffer.alloc(blockBytes)
    let rest: Buffer = Buffer.alloc(0)
    let bytes = 0
    for (let size: number; (size = readSync(descriptor, block, 0, blockBytes, from + bytes)) > 0;) {
      bytes += size
      const all = Buffer.concat([rest, block.subarray(0, size)])
      const end = all.lastIndexOf('\n') + 1
      for (const line of all.toString('utf8', 0, end).split('\n')) add(line)
      rest = all.subarray(end)
    }
    // An incomplete line is read again later, as it may still be completed.
    return add(rest.toString('utf8')) ? bytes : bytes - rest.length
  } finally {
    closeSync(descriptor)
  }
}
