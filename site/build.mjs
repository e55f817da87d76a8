// Builds the site into `dist`. A link that leads nowhere fails, and so does a page that would load something from
// elsewhere: it is to be read without a network, too.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'

const here = fileURLToPath(new URL('.', import.meta.url))
await build(here)

const loads =
  /<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)="(https?:)?\/\/[^"]*"|url\(["']?https?:/
const outside = readdirSync(join(here, 'dist'), { recursive: true })
  .filter((file) => /\.(html|css)$/.test(file))
  .filter((file) => loads.test(readFileSync(join(here, 'dist', file), 'utf8')))
if (outside.length > 0) {
  console.error(`these pages load something from elsewhere: ${outside.join(', ')}`)
  process.exitCode = 1
}
