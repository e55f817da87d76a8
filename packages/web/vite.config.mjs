import { defineConfig } from 'vite'

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
  worker: { format: 'es', plugins: () => [keepReflect] },
})
