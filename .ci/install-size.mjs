// What an installed server takes on the disk, and the most that it may.
import { lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'

const most = { packages: 90, mb: 75 }

/**
 * The packages in a `node_modules` and their megabytes, as lines to print.
 * @throws Error with them where they are too many
 */
export async function checkInstall(modules) {
  const sizes = new Map()
  for (const file of await readdir(modules, { recursive: true, withFileTypes: true })) {
    const path = join(file.parentPath, file.name)
    // In the innermost `node_modules`; those of npm itself start with a point.
    const own = /^(.*[\\/]node_modules[\\/])?(@[^\\/]+[\\/])?[^.\\/][^\\/]*[\\/]/
    const [name] = own.exec(relative(modules, path)) ?? []
    if (name === undefined || !file.isFile()) continue
    sizes.set(name, (sizes.get(name) ?? 0) + (await lstat(path)).size / 1e6)
  }
  const largest = [...sizes].toSorted(([, a], [, b]) => b - a)
  const mb = largest.reduce((sum, [, one]) => sum + one, 0)
  const text = [
    `installed: ${sizes.size} packages, ${mb.toFixed(1)} MB`,
    ...largest.slice(0, 15).map(([name, one]) => `  ${one.toFixed(1).padStart(6)} MB ${name}`),
  ].join('\n')
  if (sizes.size <= most.packages && mb <= most.mb) return text
  throw new Error(`${text}\nexpected at most ${most.packages} packages and ${most.mb} MB`)
}
