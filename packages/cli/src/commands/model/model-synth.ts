import { formatBytes } from '../../models/format-bytes.js'
import { syntheticNames, synthModel } from '../../models/synth-model.js'
import { defineCommand } from '../flags/define-command.js'
import { one, wrong } from '../flags/flags.js'
import { integer } from '../flags/values.js'

const flags = {
  like: one('NAME', syntheticNames.join(', ')),
  out: one('FILE', 'The file to write'),
  seed: one('N', 'The same seed gives the same file', integer(0, 999_999_999), '0'),
}

/** `cllm model synth` */
export const run = defineCommand({
  usage: 'model synth',
  doc: `
Writes a GGUF with the exact shape and quantization of a model and random weights, for benchmarks
without a download: as fast as the real model, with noise for output. Needs --like and --out.`,
  flags,
  async run({ flags: { like, out, seed } }, io) {
    if (like === undefined) {
      throw wrong(`--like is missing: expected one of ${syntheticNames.join(', ')}`)
    }
    if (out === undefined) throw wrong('--out is missing: expected the path of a file')
    const bytes = await synthModel({ like, out, seed })
    io.stdout.write(`${out}: ${formatBytes(bytes)}\n`)
    return 0
  },
})
