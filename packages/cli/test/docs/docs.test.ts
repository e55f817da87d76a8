import { readdir, readFile } from 'node:fs/promises'
import { errorTable } from '@cllm/core'
import t from 'tap'
import ts from 'typescript'
import type { RunCommand } from '../../src/commands/command.js'
import { configHelp } from '../../src/commands/help/config-help.js'
import { dispatch } from '../../src/dispatch.js'
import { options } from '../../src/config/options/schema.js'
import { generatedDocs } from '../../../../tools/docs/generated-docs.js'
import { parse, walk } from './parse-tests.js'

const root = new URL('../../../../', import.meta.url)
const generated = new Set(generatedDocs.flatMap((page) => (page.isPart ? [] : page.file.href)))

/** The text of the README, the guides and the packages' READMEs, by path. */
async function handWritten(): Promise<ReadonlyMap<string, string>> {
  const guides = (await readdir(new URL('docs', root), { recursive: true })).filter(
    (file) => file.endsWith('.md') && !file.startsWith('api/'),
  )
  const packages = await readdir(new URL('packages', root))
  const paths = [
    'README.md',
    ...guides.map((file) => `docs/${file}`),
    ...packages.map((name) => `packages/${name}/README.md`),
  ].filter((path) => !generated.has(new URL(path, root).href))
  const texts = paths.map(async (path) => await readFile(new URL(path, root), 'utf8'))
  return new Map((await Promise.all(texts)).map((text, index) => [paths[index]!, text]))
}

/** What `cllm … --help` prints. */
async function help(...command: readonly string[]): Promise<string> {
  let printed = ''
  const keep = { write: (text: string) => ((printed += text), true) }
  const io = { stdout: keep, stderr: keep, env: {}, signal: new AbortController().signal }
  const code = await dispatch([...command, '--help-all'], io)
  if (code !== 0) throw new Error(`cllm ${command.join(' ')} --help: ${printed}`)
  return printed
}

/** The commands that `cllm --help` lists, such as `bench serve`. */
const commands = async () =>
  [...(await help()).matchAll(/^ {2}([a-z]+(?: [a-z]+)?) {2,}/gm)].map(([, name = '']) => name)

/** A page without what it says of other servers: before colons, and their commands in comments. */
const ours = (path: string, text: string): string =>
  path === 'docs/coming-from.md'
    ? text.replaceAll(/^- .+?: /gm, '').replaceAll(/^# .*$/gm, '')
    : text

const flagsIn = (text: string) => [...text.matchAll(/(?<![\w-])--[a-z][a-z-]*[a-z]/g)].map(String)

t.test('the committed pages are those that the code renders', async (t) => {
  for (const { file, render } of generatedDocs) {
    t.equal(
      await readFile(file, 'utf8'),
      await render(),
      `${file.pathname}: \`pnpm run docs\` writes it`,
    )
  }
})

t.test('the help fits the terminal', async (t) => {
  const helps = (await commands()).map(async (name) => await help(...name.split(' ')))
  for (const text of [configHelp(), ...(await Promise.all(helps))]) {
    for (const line of text.split('\n')) t.ok(line.length <= 100, line)
  }
})

t.test('every flag that a page names exists', async (t) => {
  const pages = await handWritten()
  const known = new Set(['--help', '--version'])
  for (const command of await commands()) {
    for (const flag of flagsIn(await help(...command.split(' ')))) known.add(flag)
  }
  for (const script of ['faults/inject-faults.mjs', 'stages/print-stages.mjs']) {
    const url = new URL(`benchmarks/${script}`, root)
    const [run] = Object.values((await import(url.href)) as Record<string, RunCommand>)
    let printed = ''
    const output = { write: (text: string) => (printed += text) }
    const io = { stdout: output, stderr: output, env: {}, signal: new AbortController().signal }
    await run!(['--help-all'], io)
    for (const flag of flagsIn(printed)) known.add(flag)
  }
  t.ok(known.size > 100)
  for (const [path, text] of pages) {
    for (const flag of flagsIn(ours(path, text))) {
      t.ok(known.has(flag), `${path} names ${flag}, which no command takes`)
    }
  }
})

t.test('commands, both ways', async (t) => {
  const names = await commands()
  const text = [...(await handWritten()).values()].join('\n')
  for (const name of names) {
    t.match(text, new RegExp(`\\bcllm ${name}\\b`), `a page names cllm ${name}`)
  }
  const words = new Set(names.map((name) => name.split(' ')[0]))
  for (const [, word = ''] of text.matchAll(/(?:`|^)cllm ([a-z]+)\b/gm)) {
    t.ok(words.has(word), `a page names cllm ${word}`)
  }
})

t.test('environment variables of the pages exist', async (t) => {
  const known = new Set(['CLLM_CONFIG', ...options.map(({ env }) => env)])
  for (const [path, text] of await handWritten()) {
    for (const [name] of text.matchAll(/\bCLLM_[A-Z_]*[A-Z]\b/g)) {
      t.ok(known.has(name), `${path} names ${name}`)
    }
  }
})

/** The codes that a source makes errors with: `new CllmError('not_found', …)`. */
function codesThrown(text: string): string[] {
  const codes: string[] = []
  if (!text.includes('new CllmError')) return codes
  walk(parse(text), (node) => {
    if (!ts.isNewExpression(node) || node.expression.getText() !== 'CllmError') return
    const [code] = node.arguments ?? []
    if (code !== undefined) {
      walk(code, (part) => void (ts.isStringLiteralLike(part) && codes.push(part.text)))
    }
  })
  return codes
}

t.test('every error code is thrown somewhere', async (t) => {
  const thrown = new Set<string>()
  for (const name of await readdir(new URL('packages', root))) {
    const sources = new URL(`packages/${name}/src/`, root)
    for (const file of await readdir(sources, { recursive: true })) {
      if (!file.endsWith('.ts')) continue
      for (const code of codesThrown(await readFile(new URL(file, sources), 'utf8'))) {
        thrown.add(code)
      }
    }
  }
  t.same([...thrown].sort(), Object.keys(errorTable).sort())
})
