import { closeSync, openSync, readdirSync, readSync, renameSync, statSync } from 'node:fs'
import { open, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { attempt } from '@cllm/core'
import { isObject, parsedJson } from '../../fields/fields.js'
import { ownFolder, Turns } from '../../routes/define-protocol.js'

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

  all(): readonly UsageSum[] {
    return [...this.#sums.values()]
  }

  /** Returns all sums, and begins anew. */
  take(): UsageSum[] {
    const all = [...this.#sums.values()]
    this.#sums.clear()
    return all
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
  /** What this server has written behind that position. */
  readonly written: UsageSums
}

const tokensIn = (one: UsageSum): number => one.promptTokens + one.generatedTokens

/**
 * Usage in a folder, which servers may share, with a file per month and a line per request, or per sum of requests that
 * ended while an earlier line was written: no answer waits for the disk. Usage that is not written yet counts, but a
 * crash loses it. Each query reads the lines that any server has written since the last one.
 */
export class UsageJournal {
  readonly #months = new Map<string, ReadMonth>()
  /** Usage whose write has not begun, or has failed, such as on a full disk. */
  readonly #unwritten = new UsageSums()
  /** Usage that is being written; a part of the first line may be in its file already. */
  readonly #writing: UsageSum[] = []
  /** The changes of files, which are made one after the other. */
  readonly #turns = new Turns()
  /** The write that follows the last one. */
  #next: Promise<void> | undefined

  /** @throws `invalid_configuration` if the folder cannot be used */
  constructor(readonly folder: string) {
    ownFolder(folder, 'usage')
  }

  /**
   * Counts usage at once; resolves when it is written.
   *
   * @throws the file system's error; usage that could not be written is written with a later request's
   */
  async add(one: UsageSum): Promise<void> {
    const month = monthOf(one.day)
    // Reading also shortens the file, and puts a file in the place of a pipe, to which nothing can be appended.
    if (!this.#months.has(month)) attempt(() => this.#read(month))
    this.#unwritten.add(one)
    await this.flush()
  }

  /** Resolves when all usage so far is written. @throws the file system's error */
  async flush(): Promise<void> {
    await (this.#next ??= this.#turns.take('', async () => {
      this.#next = undefined
      // The latest day first, so that an earlier month whose file cannot be written holds up no other.
      const latestFirst = (a: UsageSum, b: UsageSum) => b.day.localeCompare(a.day)
      this.#writing.push(...this.#unwritten.take().sort(latestFirst))
      try {
        for (let sum; (sum = this.#writing[0]); this.#writing.shift()) {
          await this.#append(sum)
          this.#months.get(monthOf(sum.day))?.written.add(sum)
        }
      } finally {
        for (const sum of this.#writing.splice(0)) this.#unwritten.add(sum)
      }
    }))
  }

  async #append(one: UsageSum): Promise<void> {
    const path = this.#fileOf(monthOf(one.day))
    const file = await open(path, 'a+', 0o600)
    try {
      const last = Buffer.from('\n')
      const { ino, size } = await file.stat()
      await file.read(last, 0, 1, Math.max(0, size - 1))
      // A full disk, or the end of a process, may have left half a line.
      const begin = last.toString() === '\n' ? '' : '\n'
      await file.appendFile(`${begin}${JSON.stringify(one)}\n`)
      // Another server has put its sums in place of the file meanwhile.
      if ((await stat(path)).ino !== ino) await this.#append(one)
    } finally {
      await file.close()
    }
  }

  /** The sums of a month, followed by those that are not read from its file yet. */
  month(month: string): readonly UsageSum[] {
    return [...this.#read(month).sums.all(), ...this.#waiting(month)]
  }

  /** The tokens that a key has used in a month. */
  tokensOf(key: string, month: string): number {
    const read = this.#read(month).tokens.get(key) ?? 0
    const waiting = this.#waiting(month).filter((one) => one.key === key)
    return waiting.reduce((sum, one) => sum + tokensIn(one), read)
  }

  #waiting(month: string): readonly UsageSum[] {
    const all = [...this.#writing, ...this.#unwritten.all()]
    const written = this.#months.get(month)?.written.all() ?? []
    return [...written, ...all.filter((one) => monthOf(one.day) === month)]
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
    // A line that is being written could count twice.
    if (known && this.#writing[0]?.day.startsWith(month)) return known
    return known ? attempt(() => this.#readNew(month, known), known) : this.#readNew(month)
  }

  #readNew(month: string, known?: ReadMonth): ReadMonth {
    const file = this.#fileOf(month)
    const found = statSync(file, { throwIfNoEntry: false })
    const { size = 0, ino = 0 } = found ?? {}
    // A file that is gone may come back.
    const isSame = known && (found === undefined || (ino === known.ino && size >= known.at))
    const [sums, written] = [new UsageSums(), new UsageSums()]
    const read = isSame ? known : { sums, tokens: new Map(), ino, at: 0, written }
    if (size > read.at) read.at += addLines(file, read)
    if (found !== undefined) read.written.take()
    this.#months.set(month, read)
    if (found !== undefined && known === undefined) {
      void this.#turns.take('', async () => await this.#shorten(month, read)).catch(() => {})
    }
    return read
  }

  /** Replaces a month's lines by their sums, if there is space and no other server writes the file or replaces it. */
  async #shorten(month: string, { sums, ino, at }: ReadMonth): Promise<void> {
    const file = this.#fileOf(month)
    const shorter = `${file}.new`
    try {
      const lines = sums.all().map((sum) => `${JSON.stringify(sum)}\n`)
      await writeFile(shorter, lines.join(''), { mode: 0o600, flag: 'wx' })
      // In one turn of the event loop: another server could write between this check and the renaming.
      const now = statSync(file)
      if (now.ino !== ino || now.size !== at) throw new Error('it has grown')
      renameSync(shorter, file)
    } catch {
      // The longer file has the same content.
      await rm(shorter, { recursive: true, force: true })
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
