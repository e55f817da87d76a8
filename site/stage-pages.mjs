// Puts the repository's Markdown into `.pages`, where VitePress finds it: the README, docs/, the benchmarks and the
// packages' READMEs, with links that lead to each other's pages. A link to a source file leads to a page that
// shows it.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const target = fileURLToPath(new URL('.pages/', import.meta.url))

/** Where each page of the repository is in the site. */
const pages = new Map([
  ['README.md', 'index.md'],
  ['CHANGELOG.md', 'changelog.md'],
  ['CONTRIBUTING.md', 'contributing.md'],
  ['benchmarks/README.md', 'figures.md'],
  ['benchmarks/scheduling.md', 'policies.md'],
  ['docs/README.md', 'contents.md'],
  ...markdownIn('docs').map((path) => [path, path.slice('docs/'.length)]),
  ...markdownIn('docs/decisions').map((path) => [path, path.slice('docs/'.length)]),
  ...readdirSync(join(root, 'packages')).map((name) => [
    `packages/${name}/README.md`,
    `packages/${name}.md`,
  ]),
])

function markdownIn(folder) {
  return readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .map((name) => `${folder}/${name}`)
}

const read = (path) => readFileSync(join(root, path), 'utf8')
const titleOf = (path) => /^# (.+)$/m.exec(read(path))?.[1] ?? path

function write(path, text) {
  const file = join(target, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** A page that shows a source file. */
function sourcePage(path) {
  const page = `source/${path}.md`
  const fence = '`````'
  write(page, `# ${path}\n\n${fence}${extname(path).slice(1)}\n${read(path)}\n${fence}\n`)
  return page
}

/** The site's page for a path of the repository; undefined if there is nothing. */
function pageFor(path) {
  if (pages.has(path)) return pages.get(path)
  if (!existsSync(join(root, path))) return
  if (path.startsWith('docs/images/')) return path.slice('docs/'.length)
  if (!statSync(join(root, path)).isDirectory()) return sourcePage(path)
  return pages.has(`${path}/README.md`)
    ? pages.get(`${path}/README.md`)
    : `${path.slice('docs/'.length)}/index.md`
}

/** A page's text with links of the site. */
function staged(from, to) {
  const parts = read(from).split(/(^```[\s\S]*?^```$)/m)
  const outside = parts.map((part, index) => (index % 2 === 1 ? part : withLinks(part, from, to)))
  return outside.join('').replaceAll(/<!--[\s\S]*?-->\n?/g, '')
}

const withLinks = (text, from, to) =>
  text.replaceAll(/\]\(([^)\s]+)\)/g, (whole, link) => {
    if (/^(https?:|#|mailto:)/.test(link)) return whole
    const [path, anchor] = link.split('#')
    const page = pageFor(posix.join(posix.dirname(from), path).replace(/\/$/, ''))
    // What is not there stays as it is: VitePress reports it as a dead link.
    if (page === undefined) return whole
    const relative = posix.relative(posix.dirname(to), page)
    return `](./${relative}${anchor === undefined ? '' : `#${anchor}`})`
  })

/** Writes all pages; returns the sidebar: the sections of docs/README.md. */
export function stagePages() {
  rmSync(target, { recursive: true, force: true })
  for (const [from, to] of pages) write(to, staged(from, to))
  const decisions = markdownIn('docs/decisions').map(
    (path) => `- [${titleOf(path)}](./${posix.basename(path)})`,
  )
  write('decisions/index.md', `# Decisions\n\n${decisions.join('\n')}\n`)
  cpSync(join(root, 'docs/images'), join(target, 'images'), { recursive: true })
  mkdirSync(join(target, 'public'))
  cpSync(join(root, 'packages/web/public/icon.svg'), join(target, 'public/icon.svg'))
  return sidebar()
}

function sidebar() {
  const groups = read('docs/README.md')
    .split(/^## (?!Glossary)/m)
    .slice(1)
  return groups.map((group) => ({
    text: group.slice(0, group.indexOf('\n')),
    items: [...group.split(/^## /m)[0].matchAll(/\[([^\]]*)\]\(([^)]+)\)/g)].map(
      ([, text, link]) => {
        const page = pageFor(posix.join('docs', link))
        return { text, link: `/${page.replace(/(index)?\.md$/, '')}` }
      },
    ),
  }))
}
