import {
  type LengthDistribution,
  lengthDrawer,
  randomSource,
  type RandomSource,
} from '../statistics/random.js'
import type { Dataset, WorkItem } from '../workload/work-item.js'
import { defined } from '@cllm/core'

/** Options of a synthetic load. */
export interface SyntheticOptions {
  readonly inputLengths: LengthDistribution
  readonly outputLengths: LengthDistribution
  /** Share of each prompt, from its beginning, that its group has in common; 0 to 1, default 0. */
  readonly sharedPrefix?: number
  /** How many such groups there are; default 1. */
  readonly prefixGroups?: number
  readonly seed: number
}

/** An endless dataset with random lengths. */
export function syntheticDataset(options: SyntheticOptions): Dataset {
  const { inputLengths, outputLengths, sharedPrefix = 0, prefixGroups = 1, seed } = options
  return {
    name: 'synthetic',
    timed: false,
    item(index) {
      // A random source per item, so that an item does not depend on earlier calls.
      const random = randomSource(seed, 'synthetic', index)
      const inputTokens = lengthDrawer(inputLengths, random)()
      const shared = Math.round(inputTokens * sharedPrefix)
      const group = Math.floor(random() * prefixGroups)
      const prompt = [
        { key: `group ${group}`, tokens: shared },
        { key: `item ${index}`, tokens: inputTokens - shared },
      ].filter(({ tokens }) => tokens > 0)
      return { prompt, inputTokens, outputTokens: lengthDrawer(outputLengths, random)() }
    },
  }
}

/** Tokens of a coding agent's system prompt with its tools: Claude Code's, as counted in its sessions. */
const systemTokens = 14_328
/** Different agents, each with a system prompt of its own. */
const agents = 4

/** One in this many items is a chat of one request beside the programs. */
const chatEvery = 3

/** Turns of a program: 10.9 in the mean, 40 at most, on SWE-Bench (Continuum, arXiv 2511.02230). */
const turns = { mean: 10.9, most: 40 }

/**
 * What a turn adds, by 3,692 turns of Claude Code (timetobuildbob.github.io, 2026-03-27): 1,770 characters
 * of a tool's output and 460 of the agent's own in the mean, both skewed.
 */
const toolTokens: LengthDistribution = { kind: 'lognormal', median: 240, sigma: 1.1 }
const answerTokens: LengthDistribution = { kind: 'lognormal', median: 85, sigma: 0.8 }
const taskTokens: LengthDistribution = { kind: 'lognormal', median: 300, sigma: 0.8 }

/** Azure's conversations (Splitwise, arXiv 2311.18677): medians of 1,020 tokens and 129. */
const chatTokens: LengthDistribution = { kind: 'lognormal', median: 1020, sigma: 0.8 }
const chatAnswerTokens: LengthDistribution = { kind: 'lognormal', median: 129, sigma: 0.8 }

/** No tool's output, task or answer is longer. */
const mostTokens = 4096

/**
 * The tools that calls of Claude Code use, by 141,000 of them (TraceLab, arXiv 2606.30560): each one's share, and which
 * share of its pauses is within a second and within ten. Commands have most of the long ones, and few calls are as long
 * as those of other agents and the web. All together are as in a trace of 32 coding tasks (vllm-project/router#285):
 * 86.46 % within a second, 95.12 % within ten. Evenly spread over the logarithm within each part; the longest is a minute.
 */
const tools = [
  { name: 'Bash', share: 0.47, within: [0.773, 0.922] },
  { name: 'Read', share: 0.23, within: [0.98, 1] },
  { name: 'Edit', share: 0.13, within: [0.98, 1] },
  { name: 'Grep', share: 0.15, within: [0.98, 1] },
  { name: 'WebFetch', share: 0.01, within: [0.1, 0.6] },
  { name: 'Task', share: 0.01, within: [0.1, 0.2] },
] as const
const pauseBounds = [50, 1000, 10_000, 60_000]

/** What a program tells of its return: nearly all pauses are within that. */
const toldMs = 10_000

/**
 * An endless load of agents: programs whose every call begins with all of the one before, with a tool's
 * pause between two, and plain chats beside them. A function of its seed.
 *
 * @param hints - the share of programs that tell when they return, and with their last call that they do not
 */
export function agentsDataset(seed: number, hints: number): Dataset {
  return {
    name: 'agents',
    timed: false,
    tools: tools.map(({ name }) => name),
    item(index) {
      const random = randomSource(seed, 'agents', index)
      if (index % chatEvery === chatEvery - 1) return chat(index, random)
      return program(index, random, randomSource(seed, 'hints', index)() < hints)
    },
  }
}

function chat(index: number, random: RandomSource): WorkItem {
  const inputTokens = draw(chatTokens, random)
  const prompt = [{ key: `chat ${index}`, tokens: inputTokens }]
  return { prompt, inputTokens, outputTokens: draw(chatAnswerTokens, random) }
}

function program(index: number, random: RandomSource, tells: boolean): WorkItem {
  const agent = Math.floor(random() * agents)
  const length = lengthOf(random)
  let item: WorkItem | undefined
  let calls: string | undefined
  for (let turn = length - 1; turn >= 0; turn--) {
    const isFirst = turn === 0
    const tokens = draw(isFirst ? taskTokens : toolTokens, random)
    const own = { key: `program ${index} turn ${turn}`, tokens }
    const prompt = isFirst ? [{ key: `agent ${agent}`, tokens: systemTokens }, own] : [own]
    const tool = isFirst ? undefined : toolOf(random())
    item = {
      prompt,
      inputTokens: tokens + (isFirst ? systemTokens : 0),
      outputTokens: draw(answerTokens, random),
      ...(tool && { pauseMs: pause(tool.within, random) }),
      ...(tells && { retainMs: item === undefined ? 0 : toldMs }),
      ...defined({ calls, next: item }),
    }
    calls = tool?.name
  }
  return item as WorkItem
}

/** At least two turns; each further one is as likely as it takes for the mean. */
function lengthOf(random: RandomSource): number {
  const more = Math.floor(Math.log(1 - random()) / Math.log(1 - 1 / (turns.mean - 1)))
  return Math.min(turns.most, 2 + more)
}

const draw = (lengths: LengthDistribution, random: RandomSource): number =>
  Math.min(mostTokens, lengthDrawer(lengths, random)())

function toolOf(place: number): (typeof tools)[number] {
  let left = place
  return tools.find(({ share }) => (left -= share) < 0) ?? tools[0]
}

function pause(within: readonly number[], random: RandomSource): number {
  const place = random()
  const [from = 0, to = 0] = pauseBounds.slice(within.filter((share) => place >= share).length)
  return Math.round(from * (to / from) ** random())
}
