import { defineConfig } from 'vite'
import { licensesOf } from './licenses.mjs'

/**
 * reflect-metadata exports nothing and is there for its effect. As CommonJS it would be wrapped, and the
 * minifier takes the call of the wrapper for useless.
 */
const keepReflect = {
  name: 'keep-reflect',
  transform: {
    filter: { id: /reflect-metadata[\\/]Reflect\.js$/ },
    handler: (code) => `${code}\nexport {}`,
  },
}

/** Every browser that the page is for knows woff2, so that KaTeX's fonts in older formats are left out. */
const oneFontFormat = {
  name: 'one-font-format',
  enforce: 'pre',
  transform: {
    filter: { id: /katex[\\/]dist[\\/].*\.css$/ },
    handler: (code) => code.replaceAll(/,\s*url\([^)]*\)\s*format\("(woff|truetype)"\)/g, ''),
  },
}

/** What the page must know of the built-in policies: the policies themselves are for the lab's worker only. */
const policies = {
  name: 'policies',
  resolveId: {
    filter: { id: /^virtual:policies$/ },
    handler: (id) => `\0${id}`,
  },
  load: {
    filter: { id: /^\0virtual:policies$/ },
    async handler() {
      const known = await import('@cllm/scheduler')
      const about = ({ name, doc, options }) => {
        const schema = options?.toJSONSchema({ io: 'input', unrepresentable: 'any' })
        return { name, doc, fields: schema?.properties ?? {} }
      }
      const [batchings, orders] = [known.batchings, known.orders].map((all) => all.map(about))
      return `export default ${JSON.stringify({ batchings, orders })}`
    },
  },
}

// a name like LICENSE would keep npm from adding ours
const licenses = licensesOf({ fileName: 'third-party.md' })

export default defineConfig({
  root: import.meta.dirname,
  base: './', // a proxy may serve it below any path
  logLevel: 'warn',
  build: {
    outDir: 'dist/bundle',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false, // its script is inline, which the page's policy forbids
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  plugins: [oneFontFormat, policies, licenses.page],
  resolve: {
    // The other one reads Node's buffers.
    alias: { 'csv-parse/sync': 'csv-parse/browser/esm/sync' },
  },
  worker: { format: 'es', plugins: () => [keepReflect, licenses.worker] },
})
