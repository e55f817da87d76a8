// How large the sources and the documentation are.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const widestFolder = 14
const widestConstructor = 12

/** All files below a folder, and the folders with their numbers of entries. */
function* walk(folder) {
  const entries = readdirSync(folder, { withFileTypes: true })
  yield { folder, siblings: entries.length }
  for (const entry of entries) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* walk(path)
    else yield { file: path }
  }
}

const codeLines = (text) => text.match(/^\s*(?!\/\/|\/\*|\*)\S/gm)?.length ?? 0
const words = (path) => readFileSync(path, 'utf8').trim().split(/\s+/).length

/** As it is formatted, a constructor with many parameters has a line for each that ends in a comma. */
const constructors = (text) => [...text.matchAll(/^ {2}constructor\(\n([\s\S]*?)^ {2}\)/gm)]
const parameters = ([, list]) => list.match(/^ {4}\S.*,$/gm)?.length ?? 0

export function measureSize(root) {
  const packages = readdirSync(join(root, 'packages')).map((name) => join(root, 'packages', name))
  const found = packages.flatMap((path) => [...walk(join(path, 'src'))])
  const sources = found
    .filter(({ file }) => /\.tsx?$/.test(file))
    .map(({ file }) => readFileSync(file, 'utf8'))
  const pages = [root, join(root, 'docs')].flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  )
  return {
    'code lines': sources.reduce((sum, text) => sum + codeLines(text), 0),
    files: sources.length,
    [`folders with more than ${widestFolder} entries`]: found.filter(
      ({ siblings }) => siblings > widestFolder,
    ).length,
    [`constructors with more than ${widestConstructor} parameters`]: sources
      .flatMap(constructors)
      .filter((one) => parameters(one) > widestConstructor).length,
    'words of documentation': pages.reduce((sum, path) => sum + words(path), 0),
  }
}
