import { createRequire } from 'node:module'
import Table from 'cli-table3'
import type * as CliProgress from 'cli-progress'
import type { Output } from '../commands/command.js'

/** The least width of a column, its two spaces included. */
const narrowest = 6

/**
 * A table of text under these headings, one line a row, without colours: it may go to a file or a pipe. On a terminal
 * that is too narrow, the texts of the widest columns go on in further lines.
 *
 * @param columns - the width of the terminal; default: standard output's, and where it is unknown there is room for all
 */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  columns = process.stdout.columns || Infinity,
): string {
  const widths = head.map((name, at) =>
    Math.max(name.length + 2, ...rows.map((row) => String(row[at] ?? '').length + 2)),
  )
  const isTooWide = (): boolean => widths.reduce((sum, width) => sum + width + 1, 1) > columns
  const colWidths = isTooWide() ? widths : []
  while (isTooWide() && Math.max(...widths) > narrowest) {
    widths[widths.indexOf(Math.max(...widths))]!--
  }
  const style = { head: [], border: [], compact: true }
  const wraps = { wordWrap: true, wrapOnWordBoundary: false }
  const table = new Table({ head: [...head], colWidths, style, ...wraps })
  table.push(...rows.map((row) => [...row]))
  return `${table.toString()}\n`
}

/** Formats a size in decimal units: `16.9 MB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), units.length)
  const value = bytes / 1_000 ** power
  return `${value.toFixed(value < 100 ? 1 : 0)} ${units[power - 1]}`
}

const load = createRequire(import.meta.url)

/** A progress bar on a terminal, which `stop` restores. Its module is loaded for terminals alone. */
export function terminalBar(output: Output, format: string, options: CliProgress.Options = {}) {
  const { Presets, SingleBar } = load('cli-progress') as typeof CliProgress
  const stream = output as unknown as NodeJS.WritableStream
  // gracefulExit would listen for signals
  const own = { format, stream, hideCursor: true, gracefulExit: false, ...options }
  return new SingleBar(own, Presets.shades_classic)
}

/** Shows progress. */
interface Meter {
  /** @param values - further values that the bar's format names */
  readonly update: (done: number, total: number, values?: Readonly<Record<string, string>>) => void
  /** Ends the bar, and restores the terminal; a later update starts a new one. */
  readonly stop: () => void
}

/**
 * Progress as a bar on a terminal, elsewhere as a line now and then.
 *
 * @param parts - the number of lines for the whole
 * @param line - makes a line from the percentage done and the total
 */
export function meterOn(
  output: Output,
  format: string,
  parts: number,
  line: (percent: number, total: number) => string,
): Meter {
  let bar: CliProgress.SingleBar | undefined
  let told = 0
  return {
    update(done, total, values) {
      if (output.isTTY !== true) {
        const now = total === 0 ? 0 : Math.floor((done / total) * parts)
        if (now > told) output.write(`${line((100 / parts) * now, total)}\n`)
        told = Math.max(told, now)
      } else if (bar !== undefined) bar.update(done, values)
      else if (total > 0) {
        bar = terminalBar(output, format)
        bar.start(total, done, values)
      }
    },
    stop() {
      bar?.stop()
      bar = undefined
      told = 0
    },
  }
}
