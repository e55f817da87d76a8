import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Plugins for Vite's page and for its workers, which write the licences of all that is in either bundle
 * into one file. Vite's own `build.license` leaves out what only a worker has.
 */
export function licensesOf({ fileName }) {
  const modules = new Set()
  const note = (bundle) => {
    for (const { type, moduleIds = [] } of Object.values(bundle)) {
      if (type === 'chunk') for (const id of moduleIds) modules.add(id)
    }
  }
  return {
    // Workers are built while the page's modules are transformed, so before the page is written.
    worker: { name: 'licenses-of-worker', generateBundle: (_, bundle) => note(bundle) },
    page: {
      name: 'licenses',
      generateBundle(_, bundle) {
        note(bundle)
        this.emitFile({ type: 'asset', fileName, source: toMarkdown(modules) })
      },
    },
  }
}

/** The terms of the packages that some modules, given by their paths, are of. */
export function toMarkdown(modules) {
  const packages = new Map()
  for (const id of modules) {
    if (id.startsWith('\0') || !/[\\/]node_modules[\\/]/.test(id)) continue
    const found = packageOf(dirname(id))
    if (found !== undefined) packages.set(`${found.name} - ${found.version}`, found)
  }
  const sections = [...packages]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([title, { license, folder }]) => {
      const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name))
      const text = file === undefined ? '' : `${readFileSync(join(folder, file), 'utf8').trim()}\n`
      return `## ${title} (${license})\n\n${text}`
    })
  return `# Licenses\n\nThese libraries are bundled here:\n\n${sections.join('\n')}`
}

/** The package that a folder belongs to; folders inside may have a package.json without a version. */
function packageOf(folder) {
  try {
    const { name, version, license } = JSON.parse(
      readFileSync(join(folder, 'package.json'), 'utf8'),
    )
    if (name !== undefined && version !== undefined) return { name, version, license, folder }
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  const parent = dirname(folder)
  return parent === folder ? undefined : packageOf(parent)
}
