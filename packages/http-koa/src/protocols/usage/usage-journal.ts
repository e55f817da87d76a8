import {
  constants,
  appendFileSync,
  closeSync,
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

/** By what sums are told apart. */
export const usageGroups = ['day', 'key', 'tenant', 'model'] as const

/** One of {@link usageGroups}. */
export type UsageGroup = (typeof usageGroups)[number]

/** What is summed. */
export const usageCounts = [
  'requests',
  // those of the requests that failed or whose client left
  'unfinished',
  'promptTokens',
  // those of the prompt's tokens that were found computed
  'cachedTokens',
  'generatedTokens',
] as const

/** What a key used of a model on a day. A journal's lines are sums, too: of one request. */
export interface UsageSum extends Readonly<Record<(typeof usageCounts)[number], number>> {
  /** In UTC, such as `2026-11-22`. */
  readonly day: string
  /** The name of the API key; null on servers without keys. */
  readonly key: string | null
  readonly tenant: string | null
  readonly model: string
}

/** Sums of sums. */
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

/**
 * Usage in a folder, a file for each month: a line for each request, written before its answer ends, so
 * that a crash loses none. What cannot be written, as on a full disk, waits as sums. What an earlier process wrote is
 * summed up when it is read for the first time.
 */
export class UsageJournal {
  readonly #months = new Map<string, UsageSums>()
  /** What is in no file yet. */
  readonly #unwritten = new UsageSums()
  /** Months whose files end with a whole line. */
  readonly #whole = new Set<string>()

  /** @throws `invalid_configuration` where the folder cannot be used */
  constructor(readonly folder: string) {
    ownFolder(folder, 'usage')
  }

  /** @throws the file system's error; what could not be written is written with a later one. */
  add(one: UsageSum): void {
    attempt(() => this.#sumsOf(monthOf(one.day)))?.add(one)
    this.#unwritten.add(one)
    // The latest day first: an earlier month whose file cannot be written holds up no other.
    for (const sum of this.#unwritten.all().toReversed()) {
      this.#append(monthOf(sum.day), sum)
      this.#unwritten.remove(sum)
    }
  }

  #append(month: string, one: UsageSum): void {
    const begin = this.#whole.has(month) ? '' : '\n'
    this.#whole.delete(month)
    appendFileSync(this.#fileOf(month), `${begin}${JSON.stringify(one)}\n`, { mode: 0o600 })
    this.#whole.add(month)
  }

  /** The sums of a month. */
  month(month: string): readonly UsageSum[] {
    return this.#sumsOf(month).all()
  }

  /** The sums of days, both ends included, without those that cannot be read; `onProblem` is told why. */
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

  /** A month that cannot be read is read again at the next question. */
  #sumsOf(month: string): UsageSums {
    const known = this.#months.get(month)
    if (known !== undefined) return known
    const sums = new UsageSums()
    const file = this.#fileOf(month)
    const exists = statSync(file, { throwIfNoEntry: false }) !== undefined
    for (const line of exists ? fileLines(file) : []) {
      const one = parsedJson(line)
      // Else it is the half of a line that a crash has left, or another program's.
      if (isSum(one)) sums.add(one)
    }
    this.#months.set(month, sums)
    if (exists) this.#shorten(month, sums)
    else this.#whole.add(month)
    for (const one of this.#unwritten.all()) if (monthOf(one.day) === month) sums.add(one)
    return sums
  }

  /** Replaces a month's lines by their sums, where there is space for them. */
  #shorten(month: string, sums: UsageSums): void {
    const file = this.#fileOf(month)
    try {
      const lines = sums.all().map((sum) => `${JSON.stringify(sum)}\n`)
      writeFileSync(`${file}.new`, lines.join(''), { mode: 0o600 })
      renameSync(`${file}.new`, file)
      this.#whole.add(month)
    } catch {
      // The longer file says the same.
      rmSync(`${file}.new`, { recursive: true, force: true })
    }
  }

  #fileOf(month: string): string {
    return join(this.folder, `${month}.jsonl`)
  }
}

const blockBytes = 1 << 18

// A pipe in place of a file is empty, instead of holding up all requests. Windows has none.
const { O_NONBLOCK, O_RDONLY } = constants

const isSum = (line: unknown): line is UsageSum =>
  isObject(line) &&
  typeof line['day'] === 'string' &&
  usageCounts.every((name) => typeof line[name] === 'number')

/** The lines of a file, read in blocks: as one text it could be longer than texts may be. */
function* fileLines(file: string): Generator<string> {
  const descriptor = openSync(file, O_RDONLY | O_NONBLOCK)
  try {
    const block = Buffer.alloc(blockBytes)
    let rest: Buffer = Buffer.alloc(0)
    for (let size: number; (size = readSync(descriptor, block)) > 0;) {
      const all = Buffer.concat([rest, block.subarray(0, size)])
      const end = all.lastIndexOf('\n') + 1
      yield* all.toString('utf8', 0, end).split('\n')
      rest = all.subarray(end)
    }
    yield rest.toString('utf8')
  } finally {
    closeSync(descriptor)
  }
}
