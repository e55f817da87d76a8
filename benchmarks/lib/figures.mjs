import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'

const marks = /(?<=<!-- figures -->\n)[\s\S]*?(?=\n<!-- end of figures -->)/

/** Puts what was measured in the place of what stands between the marks of a page, named from the repository's root. */
export function writeFigures(page, text) {
  const file = fileURLToPath(new URL(`../../${page}`, import.meta.url))
  const before = readFileSync(file, 'utf8')
  if (!marks.test(before)) throw new Error(`${page} has no place for figures`)
  writeFileSync(
    file,
    before.replace(marks, () => text),
  )
}

/** How often, when and on what it was measured. */
export function howMeasured(rounds, script) {
  const cores = cpus()
  return (
    `Medians of ${rounds} rounds on ${new Date().toISOString().slice(0, 10)}, ` +
    `${cores.length} cores (${cores[0].model.trim()}), Node ${process.versions.node}, by \`benchmarks/${script}\``
  )
}
