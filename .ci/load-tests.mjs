// Gives the test processes TypeScript as `tsc -b` compiled it: loading a compiler into each of them
// takes longer than most tests. A file that is newer than the last build is compiled here, so that
// a test can be edited and run again without one. `.taprc` imports this into each test's process.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { register } from 'node:module'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) {
  register(import.meta.url)
  // Nothing else compiles TypeScript here, nor in what a test forks.
  delete process.env.TAP_TYPE_STRIP_ONLY
  process.execArgv = ['--enable-source-maps', `--import=${import.meta.url}`]
}

const root = fileURLToPath(new URL('..', import.meta.url))

/** Where a project's sources lie, and where its tsconfig.json has the compiled files put. */
const outputs = [
  [/^(packages\/[^/]+)\/test\/(.+)\.ts$/, '$1/.tsbuild', '$2.js'],
  [/^(packages\/[^/]+)\/src\/(.+)\.ts$/, '$1/dist', '$2.js'],
  [/^examples\/(.+)\.ts$/, '.tsbuild/examples', '$1.js'],
]

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context)
  } catch (error) {
    if (!/^(\.|file:).*\.js(\?|$)/.test(specifier)) throw error
    const url = new URL(specifier.replace(/\.js(?=\?|$)/, '.ts'), context.parentURL)
    if (!existsSync(url)) throw error
    return { url: url.href, format: 'module', shortCircuit: true }
  }
}

export async function load(url, context, next) {
  if (!/^file:.*\.ts(\?|$)/.test(url)) return await next(url, context)
  const path = fileURLToPath(url)
  const source = withSeed(built(path) ?? (await compiled(path)))
  return { format: 'module', source, shortCircuit: true }
}

/**
 * Properties are checked with the same values in every run, so that a change is judged by what it
 * changes. `FAST_CHECK_SEED=random` looks for new ones, a number repeats a run.
 */
function withSeed(source) {
  const seed = Number(process.env.FAST_CHECK_SEED ?? 1)
  if (Number.isNaN(seed) || !/from ['"]fast-check['"]/.test(source)) return source
  const name = 'fastCheckOfThisRun'
  const set = `${name}.configureGlobal({ ...${name}.readConfigureGlobal(), seed: ${seed} });`
  return `import * as ${name} from 'fast-check';${set}${source}`
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
