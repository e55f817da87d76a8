// Builds the site into `dist`, with the packages' API from typedoc in `dist/api`. A link that leads nowhere fails, and
// so does a page that would load something from elsewhere: it is to be read without a network, too.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = join(here, '..')

// Both take a while, and a core each.
const typedoc = spawn(process.execPath, [join(root, 'node_modules/typedoc/bin/typedoc')], {
  cwd: root,
  stdio: 'inherit',
})
const [[code]] = await Promise.all([once(typedoc, 'exit'), build(here)])
if (code !== 0) process.exit(code ?? 1)
cpSync(join(here, '.api'), join(here, 'dist/api'), { recursive: true })

const loads =
  /<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)="(https?:)?\/\/[^"]*"|url\(["']?https?:/
const outside = readdirSync(join(here, 'dist'), { recursive: true })
  .filter((file) => /\.(html|css)$/.test(file))
  .filter((file) => loads.test(readFileSync(join(here, 'dist', file), 'utf8')))
if (outside.length > 0) {
  console.error(`these pages load something from elsewhere: ${outside.join(', ')}`)
  process.exitCode = 1
}
