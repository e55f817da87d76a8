// Gives the test processes TypeScript as `tsc -b` compiled it: loading a compiler into each of them
// takes longer than most tests. A file that is newer than the last build is compiled here, so that
// a test can be edited and run again without one. `.taprc` imports this into each test's process.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { register, syncBuiltinESMExports } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import workers, { isMainThread } from 'node:worker_threads'
import { areBundlesNew } from '../tools/bundle.mjs'

const coversNothing = process.env._TAPJS_PROCESSINFO_COVERAGE_ !== '1'

if (isMainThread) {
  register(import.meta.url)
  // Nothing else compiles TypeScript here, nor in what a test forks.
  delete process.env.TAP_TYPE_STRIP_ONLY
  process.execArgv = ['--enable-source-maps', `--import=${import.meta.url}`]
  // A thread needs none of what tap loads into a process, which takes seconds.
  const inThread = new URL('load-tests-in-thread.mjs', import.meta.url).href
  class Worker extends workers.Worker {
    constructor(file, options) {
      super(file, { execArgv: [`--import=${inThread}`], ...options })
    }
  }
  if (coversNothing) workers.Worker = Worker
  syncBuiltinESMExports()
  // What tests start is what users start, unless `tsc -b` alone ran since: then it is what that compiled.
  if (areBundlesNew()) process.env.CLLM_TEST_NODE_OPTIONS = '--conditions=bundled'
}

const root = fileURLToPath(new URL('..', import.meta.url))

/** Where a project's sources lie, and where its tsconfig.json has the compiled files put. */
const outputs = [
  [/^(packages\/[^/]+)\/test\/(.+)\.ts$/, '$1/.tsbuild', '$2.js'],
  [/^(packages\/[^/]+)\/src\/(.+)\.ts$/, '$1/dist', '$2.js'],
  [/^(examples|tools)\/(.+)\.ts$/, '.tsbuild/$1', '$2.js'],
]

const ours = /^file:.*\/packages\/[^/]+\/dist\/[^?]*\.js$/
const theirs = /^file:.*\/node_modules\/[^?]*\.[cm]?js$/

// What these hooks answer themselves does not go to those of tap, which ask the test's process about
// each import and send it each source: most of the time that a test took to start. With coverage, tap
// must see our sources.

const resolved = new Map()
/** What is in the place of a library for the files whose URLs have a pattern. */
const replaced = new Map()
const replace = (library, file, pattern) =>
  replaced.set(library, { url: new URL(file, import.meta.url).href, pattern })

const ourTests = /\/(packages|examples)\/(.*\/)?test\/|\/\.tap\/fixtures\//
replace('fast-check', 'fast-check.mjs', ourTests)
replace('async-hook-domain', 'domain.mjs', /\/@tapjs\/core\//)
replace('tap', 'suite.mjs', ourTests)

export async function resolve(specifier, context, next) {
  const { parentURL } = context
  const other = replaced.get(specifier)
  if (other?.pattern.test(parentURL)) {
    return { url: other.url, format: 'module', shortCircuit: true }
  }
  const fromFile = parentURL?.startsWith('file:') === true
  if (fromFile && /^\.\.?\//.test(specifier)) {
    const url = new URL(specifier, parentURL)
    if (existsSync(url)) return { url: url.href, shortCircuit: true }
  }
  const isName = fromFile && /^[@\w]/.test(specifier) && !specifier.startsWith('node:')
  const key = isName ? `${packageOf(parentURL)} ${specifier}` : ''
  const known = isName ? resolved.get(key) : undefined
  if (known !== undefined) return known
  try {
    const found = await next(specifier, context)
    if (isName) resolved.set(key, { ...found, shortCircuit: true })
    return found
  } catch (error) {
    if (!/^(\.|file:).*\.js(\?|$)/.test(specifier)) throw error
    const url = new URL(specifier.replace(/\.js(?=\?|$)/, '.ts'), context.parentURL)
    if (!existsSync(url)) throw error
    return { url: url.href, format: 'module', shortCircuit: true }
  }
}

/** Where the names in a file's imports are looked up from: one place for all files of a package. */
const packageOf = (url) =>
  /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(url)?.[0] ??
  /^.*\/packages\/[^/]+/.exec(url)?.[0] ??
  url.slice(0, url.lastIndexOf('/'))

export async function load(url, context, next) {
  if (coversNothing && ours.test(url)) {
    return { format: 'module', source: readFileSync(fileURLToPath(url)), shortCircuit: true }
  }
  if (theirs.test(url)) {
    const path = fileURLToPath(url)
    if (!isModule(path)) return { format: 'commonjs', shortCircuit: true }
    return { format: 'module', source: readFileSync(path), shortCircuit: true }
  }
  if (!/^file:.*\.ts(\?|$)/.test(url)) return await next(url, context)
  const path = fileURLToPath(url)
  const source = built(path) ?? (await compiled(path))
  return { format: 'module', source, shortCircuit: true }
}

const typeOf = new Map()

/** Whether a file of a library is an ES module, by its name or the nearest package.json. */
function isModule(path) {
  if (/\.[cm]js$/.test(path)) return path.endsWith('.mjs')
  return isModuleFolder(dirname(path))
}

function isModuleFolder(folder) {
  let is = typeOf.get(folder)
  if (is !== undefined) return is
  const file = join(folder, 'package.json')
  if (existsSync(file)) is = JSON.parse(readFileSync(file, 'utf8')).type === 'module'
  else is = isModuleFolder(dirname(folder))
  typeOf.set(folder, is)
  return is
}

/** What `tsc -b` made of a file, with a source map that is right at the file's own place. */
function built(path) {
  const name = path.slice(root.length)
  const [pattern, folder, file] = outputs.find(([pattern]) => pattern.test(name)) ?? []
  if (pattern === undefined) return
  const target = join(root, name.replace(pattern, `${folder}/${file}`))
  const info = join(root, name.replace(pattern, folder), '.tsbuildinfo')
  if (!existsSync(info) || !existsSync(target)) return
  if (statSync(info).mtimeMs < statSync(path).mtimeMs) return
  const map = { ...JSON.parse(readFileSync(`${target}.map`, 'utf8')), sources: [basename(path)] }
  const data = Buffer.from(JSON.stringify(map)).toString('base64')
  const comment = `//# sourceMappingURL=data:application/json;base64,${data}`
  return readFileSync(target, 'utf8').replace(/\/\/# sourceMappingURL=.*\s*$/, comment)
}

async function compiled(path) {
  const { default: ts } = await import('typescript')
  const base = join(root, 'tsconfig.base.json')
  const { config } = ts.parseConfigFileTextToJson(base, readFileSync(base, 'utf8'))
  const alone = { module: 'esnext', moduleResolution: 'bundler', inlineSourceMap: true }
  const settings = { ...config.compilerOptions, sourceMap: false, ...alone }
  const { options: compilerOptions } = ts.convertCompilerOptionsFromJson(settings, root)
  const text = readFileSync(path, 'utf8')
  return ts.transpileModule(text, { fileName: path, compilerOptions }).outputText
}
