import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { ownFolder } from '../own-folder.js'
import { type UsageSum, UsageSums } from './usage-sum.js'

const monthOf = (day: string): string => day.slice(0, 7)
const fileName = /^(\d{4}-\d\d)\.jsonl$/

/**
 * Usage in a folder, a file for each month: a line for each request, written before its answer ends, so
 * that a crash loses none. What an earlier process wrote is summed up when it is read for the first time.
 */
export class UsageJournal {
  readonly #months = new Map<string, UsageSums>()

  /** @throws `invalid_configuration` where the folder cannot be used */
  constructor(private readonly folder: string) {
    ownFolder(folder, 'usage')
  }

  add(one: UsageSum): void {
    const month = monthOf(one.day)
    this.#sumsOf(month).add(one)
    appendFileSync(this.#fileOf(month), `${JSON.stringify(one)}\n`, { mode: 0o600 })
  }

  /** The sums of a month. */
  month(month: string): readonly UsageSum[] {
    return this.#sumsOf(month).all()
  }

  /** The sums of days, both ends included. */
  days(from: string, to: string): readonly UsageSum[] {
    const months = readdirSync(this.folder).flatMap((name) => fileName.exec(name)?.[1] ?? [])
    return months
      .filter((month) => month >= monthOf(from) && month <= monthOf(to))
      .flatMap((month) => this.month(month))
      .filter(({ day }) => day >= from && day <= to)
  }

  #sumsOf(month: string): UsageSums {
    const known = this.#months.get(month)
    if (known !== undefined) return known
    const sums = new UsageSums()
    this.#months.set(month, sums)
    const file = this.#fileOf(month)
    if (!existsSync(file)) return sums
    for (const line of readFileSync(file, 'utf8').split('\n')) {
      const one = parsed(line)
      if (one !== undefined) sums.add(one)
    }
    const lines = sums.all().map((sum) => `${JSON.stringify(sum)}\n`)
    writeFileSync(`${file}.new`, lines.join(''), { mode: 0o600 })
    renameSync(`${file}.new`, file)
    return sums
  }

  #fileOf(month: string): string {
    return join(this.folder, `${month}.jsonl`)
  }
}

/** Undefined for the half of a line that a crash has left. */
function parsed(line: string): UsageSum | undefined {
  try {
    return JSON.parse(line) as UsageSum
  } catch {
    return undefined
  }
}
