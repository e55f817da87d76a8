// Makes simd-module.ts of simd-scan.wat, next to it. Run it after each change of the latter.
import { readFile, writeFile } from 'node:fs/promises'
import wabt from 'wabt'

const folder = new URL('src/sampling/chain/scan/', import.meta.url)
const text = await readFile(new URL('simd-scan.wat', folder), 'utf8')
const assembler = await wabt()
const { buffer } = assembler.parseWat('simd-scan.wat', text, { simd: true }).toBinary({})
const lines = Buffer.from(buffer)
  .toString('base64')
  .match(/.{1,92}/g)
const source = `/** simd-scan.wat as a WebAssembly module, in base64: made by assemble-scan.mjs. */
export const simdModule = [
${lines.map((line) => `  '${line}',`).join('\n')}
].join('')
`
await writeFile(new URL('simd-module.ts', folder), source)
