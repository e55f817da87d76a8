import { benchEngine } from '../bench/bench-engine.js'
import { benchPolicies } from '../bench/bench-policies.js'
import { benchCalibrate } from '../bench/calibrate.js'
import { tune as tuneLoad } from '../bench/tune.js'
import type { RunCommand } from '../command-io.js'
import { engineLikeProcess } from './engine-like-process.js'
import { modelHost } from './model-host.js'

/** `cllm bench calibrate` */
export const calibrate = engineLikeProcess(
  ['bench', 'calibrate'],
  async (argv, io) => await benchCalibrate(argv, io, await modelHost(io)),
)

/** `cllm bench engine` */
export const engine = engineLikeProcess(
  ['bench', 'engine'],
  async (argv, io) => await benchEngine(argv, io, await modelHost(io)),
)

/** `cllm bench policies` */
export const policies: RunCommand = async (argv, io) =>
  await benchPolicies(argv, io, async (plugins) => await modelHost(io, plugins))

/** `cllm tune` */
export const tune: RunCommand = async (argv, io) =>
  await tuneLoad(argv, io, async (plugins) => await modelHost(io, plugins))
