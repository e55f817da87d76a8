// Builds the page with Vite, unless nothing that goes into it has changed since the last build. Run
// after `tsc -b`: the lab takes the compiled simulation.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const here = import.meta.dirname
const sources = [
  'src',
  'index.html',
  'public',
  'package.json',
  'vite.config.mjs',
  'licenses.mjs',
  'build.mjs',
]
const compiled = ['bench', 'core', 'scheduler', 'simulation'].map((name) => `../${name}/dist`)

function* filesIn(path) {
  if (!existsSync(path)) return
  if (statSync(path).isFile()) yield path
  else for (const name of readdirSync(path).sort()) yield* filesIn(join(path, name))
}

const hash = createHash('sha256')
for (const source of [...sources, ...compiled]) {
  for (const file of filesIn(join(here, source))) {
    if (/\.(map|d\.ts|tsbuildinfo)$/.test(file)) continue
    hash.update(file.slice(here.length)).update('\0').update(readFileSync(file))
  }
}
const stamp = hash.digest('hex')
const stampFile = join(here, 'dist', '.page-stamp')
const isBuilt = existsSync(join(here, 'dist', 'bundle', 'index.html'))
if (!isBuilt || !existsSync(stampFile) || readFileSync(stampFile, 'utf8') !== stamp) {
  const { build } = await import('vite')
  await build({ configFile: join(here, 'vite.config.mjs') })
  writeFileSync(stampFile, stamp)
}
