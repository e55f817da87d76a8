import { defineConfig } from 'vite'

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
  worker: { format: 'es' },
})
