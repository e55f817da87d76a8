import { readFile } from 'node:fs/promises'
import { parse } from 'csv-parse/sync'

/** The lines of a CSV file, by the names of their columns. */
export const readCsv = async (file: string): Promise<Record<string, string>[]> =>
  parse(await readFile(file), { columns: true }) as unknown as Record<string, string>[]
