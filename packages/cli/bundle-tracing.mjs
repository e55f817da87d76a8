// Makes `dist/tracing/start-tracing.js` one file with what it needs of OpenTelemetry, whose packages take 21 MB when
// they are installed. npm and pnpm run it before they pack, and with `--restore` after that: in the workspace the packages
// themselves are used.
import { copyFileSync, existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

const here = import.meta.dirname
const folder = join(here, 'dist/tracing')
const target = join(folder, 'start-tracing.js')
const bundled = join(folder, '.bundled.js')
const compiled = join(folder, '.compiled.js')

// Renaming: whoever loads the file meanwhile gets the one or the other.
if (process.argv.includes('--restore')) {
  if (existsSync(compiled)) renameSync(compiled, target)
} else {
  await bundle()
  if (!existsSync(compiled)) copyFileSync(target, compiled)
  copyFileSync(
    join(here, 'node_modules/@opentelemetry/api/LICENSE'),
    join(folder, 'opentelemetry-terms.txt'),
  )
  renameSync(bundled, target)
}

async function bundle() {
  await build({
    entryPoints: [join(here, 'src/tracing/start-tracing.ts')],
    outfile: bundled,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    mainFields: ['module', 'main'],
    external: ['@cllm/*'],
    minifySyntax: true,
    minifyWhitespace: true,
    logLevel: 'warning',
    banner: {
      js: [
        '// With parts of OpenTelemetry for JavaScript, Apache-2.0: see opentelemetry-terms.txt beside this file.',
        "import { createRequire } from 'node:module'",
        'const require = createRequire(import.meta.url)',
      ].join('\n'),
    },
  })
}
