// Makes few files of a package's many, in `dist/bundle/`: a start loads a dozen in place of five hundred, in half the
// time. They are what is published (`.pnpmfile.cjs`). What a package depends on stays outside; development dependencies
// that it imports are bundled. Needs `tsc -b`; only what it has compiled since is bundled again.
//
//   node tools/bundle.mjs
//   node --conditions=bundled packages/cli/bin/cllm.js    runs the bundles, not what `tsc -b` compiled
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { toMarkdown } from '../packages/web/licenses.mjs'

const packages = fileURLToPath(new URL('../packages/', import.meta.url))
/** Written last, so that bundles are whole where it is. */
const stamp = 'dist/.bundled'

const timeOf = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0

const isBundled = (manifest) => JSON.stringify(manifest.exports).includes('"bundled"')

const outdated = () =>
  readdirSync(packages)
    .map((name) => join(packages, name))
    .filter((folder) => {
      const manifest = join(folder, 'package.json')
      const made = timeOf(join(folder, stamp))
      const changed = [manifest, join(folder, 'dist/.tsbuildinfo'), import.meta.filename].map(
        timeOf,
      )
      return isBundled(readJson(manifest)) && made < Math.max(...changed)
    })

/** Whether the bundles are of what `tsc -b` compiled last. */
export const areBundlesNew = () => outdated().length === 0

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'))

/** A file that another one starts: on a thread, in a process, or as a hook. */
const started = /(new URL|register)\('(?:\.\/)?([\w-]+\.js)', import\.meta\.url/g

async function bundle(folder) {
  const manifest = readJson(join(folder, 'package.json'))
  const dist = join(folder, 'dist')
  const made = JSON.stringify([manifest.exports, manifest.imports]).matchAll(
    /dist\/bundle\/([\w./-]+)/g,
  )
  const entryPoints = new Set([...made].map(([, file]) => join(dist, file)))
  for (const file of readdirSync(dist, { recursive: true })) {
    if (!file.endsWith('.js') || file.startsWith('bundle')) continue
    const path = join(dist, file)
    for (const [, , name] of readFileSync(path, 'utf8').matchAll(started))
      entryPoints.add(join(path, '..', name))
  }
  // An optional peer is there for its types.
  const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
  const needed = [...Object.keys(dependencies), ...Object.keys(peerDependencies)]
  const outside = needed.filter((name) => name !== 'zod' && !(name in peerDependenciesMeta))
  rmSync(join(folder, stamp), { force: true })
  const { build } = await import('esbuild') // not for tests, which ask about the time only
  const { metafile } = await build({
    absWorkingDir: folder,
    metafile: true,
    entryPoints: [...entryPoints],
    outdir: join(dist, 'bundle'),
    outbase: dist,
    chunkNames: 'parts/[name]-[hash]',
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    mainFields: ['module', 'main'],
    external: ['@cllm/*', '@reflink/*', ...outside],
    // One for all packages, as they nest each other's schemas.
    alias:
      manifest.name === '@cllm/core' ? {} : { zod: '@cllm/core/zod', 'zod/v4': '@cllm/core/zod' },
    logLevel: 'warning',
    plugins: [places(dist), usedOfLlama],
    banner: {
      js: [
        "import { createRequire as requireFor } from 'node:module';",
        'const require = requireFor(import.meta.url);',
        'const { dirname: __dirname, filename: __filename } = import.meta;',
        "const distOf = import.meta.url.slice(0, import.meta.url.lastIndexOf('bundle/'));",
      ].join(''),
    },
  })
  const libraries = toMarkdown(Object.keys(metafile.inputs).map((file) => join(folder, file)))
  writeFileSync(join(dist, 'bundle/third-party.md'), libraries)
  const parts = join(dist, 'bundle/parts')
  const current = new Set(Object.keys(metafile.outputs).map((file) => join(folder, file)))
  for (const name of existsSync(parts) ? readdirSync(parts) : []) {
    if (!current.has(join(parts, name))) rmSync(join(parts, name))
  }
  writeFileSync(join(folder, stamp), '')
}

/** Each module knows where it was compiled, as it finds files from there; what it starts is bundled beside. */
const places = (dist) => ({
  name: 'places',
  setup({ onLoad }) {
    onLoad({ filter: /\.js$/ }, ({ path }) => {
      const file = relative(dist, path)
      if (file.startsWith('..')) return
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return
      const at = (name) => `(distOf + '${name}')`
      // What is loaded when it is needed is bundled, and still waits until then.
      const [, load] = /^const (\w+) = createRequire\(import\.meta\.url\)/m.exec(text) ?? []
      const contents = (load === undefined ? text : text.replaceAll(`${load}('`, "require('"))
        .replace(started, (whole) => whole.replace('import.meta.url', at(`bundle/${file}`)))
        .replaceAll('import.meta.url', at(file))
      return { contents, loader: 'js' }
    })
  },
})

/**
 * node-llama-cpp's entry names all of its modules, and few are used: they count as free of side effects. What finds and
 * builds llama.cpp is left out, and its locks, which end a process at every signal.
 */
const usedOfLlama = {
  name: 'used of node-llama-cpp',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /./ }, async ({ path, importer, pluginData, ...from }) => {
      if (pluginData === usedOfLlama) return undefined
      if (path !== 'node-llama-cpp' && !ofLlama.test(importer)) return undefined
      if (/\/getLlama\.js$|^proper-lockfile$/.test(path)) return { path, namespace: 'left-out' }
      const found = await resolve(path, { ...from, importer, pluginData: usedOfLlama })
      return { ...found, sideEffects: false }
    })
    onLoad({ filter: /./, namespace: 'left-out' }, () => ({ contents: 'module.exports = {}' }))
    // What the banner declares for all modules of a file is not declared again.
    const declared = /^const (require|__dirname|__filename) = .*;$/gm
    onLoad({ filter: ofLlama }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(declared, ''),
    }))
  },
}

const ofLlama = /[\\/]node_modules[\\/]node-llama-cpp[\\/]dist[\\/].+\.js$/

if (process.argv[1] === import.meta.filename) {
  const folders = outdated()
  for (const folder of folders) await bundle(folder)
  if (folders.length > 0)
    console.log(`bundled ${folders.map((folder) => relative(packages, folder)).join(', ')}`)
}
