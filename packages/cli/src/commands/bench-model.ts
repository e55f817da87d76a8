import { benchCalibrate, benchEngine, benchStages, tune as tuneLoad } from '@cllm/bench'
import type { RunCommand } from './command-io.js'
import { modelHost } from './model-host.js'

/** `cllm bench calibrate` */
export const calibrate: RunCommand = async (argv, io) =>
  await benchCalibrate(argv, io, await modelHost(io))

/** `cllm bench engine` */
export const engine: RunCommand = async (argv, io) =>
  await benchEngine(argv, io, await modelHost(io))

/** `cllm bench stages` */
export const stages: RunCommand = async (argv, io) =>
  await benchStages(argv, io, await modelHost(io))

/** `cllm tune` */
export const tune: RunCommand = async (argv, io) =>
  await tuneLoad(argv, io, async (plugins) => await modelHost(io, plugins))
