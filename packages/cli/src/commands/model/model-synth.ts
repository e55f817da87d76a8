import { CllmError } from '@cllm/core'
import { formatBytes } from '../../models/format-bytes.js'
import { syntheticNames, synthModel } from '../../models/synth-model.js'
import type { CommandIo } from '../command-io.js'
import { parseCommand } from '../flags/parse-command.js'

const usage = `Usage: cllm model synth --like NAME --out FILE [--seed N]

Writes a GGUF with the exact shape and quantization of a model and random weights, for benchmarks
without a download: it runs as fast as the real model, and its output is noise.

  --like NAME   ${syntheticNames.join(' or ')}
  --out FILE    The file to write
  --seed N      A whole number; the same seed gives the same file (default 0)
`

const options = {
  like: { type: 'string' },
  out: { type: 'string' },
  seed: { type: 'string', default: '0' },
} as const

/** `cllm model synth` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const parsed = parseCommand(argv, io, { usage, options, words: [] })
  if (parsed === undefined) return 0
  const { like, out, seed } = parsed.values
  if (like === undefined) throw wrong(`--like is missing: expected ${syntheticNames.join(' or ')}`)
  if (out === undefined) throw wrong('--out is missing: expected the path of a file')
  if (!/^\d{1,9}$/.test(seed)) {
    throw wrong(`--seed: expected a whole number from 0 to 999999999, got "${seed}"`)
  }
  const bytes = await synthModel({ like, out, seed: Number(seed) })
  io.stdout.write(`${out}: ${formatBytes(bytes)}\n`)
  return 0
}

function wrong(message: string): CllmError {
  return new CllmError('invalid_configuration', message)
}
