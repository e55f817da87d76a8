import { type RandomSource, randomSource } from '../../statistics/random-source.js'
import { lengthDrawer, type LengthDistribution } from '../../workload/length-distribution.js'
import type { Dataset, WorkItem } from '../../workload/work-item.js'

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
 * The pauses between an agent's calls: 86.46 % are within a second and 95.12 % within ten, in a trace of
 * 32 coding tasks (vllm-project/router#285). Evenly spread over the logarithm within each part; the longest
 * is a minute.
 */
const pauses: readonly (readonly [share: number, fromMs: number, toMs: number])[] = [
  [0.8646, 50, 1000],
  [0.9512, 1000, 10_000],
  [1, 10_000, 60_000],
]

/**
 * An endless load of agents: programs whose every call begins with all of the one before, with a tool's
 * pause between two, and plain chats beside them. A function of its seed.
 */
export function agentsDataset(seed: number): Dataset {
  return {
    name: 'agents',
    timed: false,
    item(index) {
      const random = randomSource(seed, 'agents', index)
      return index % chatEvery === chatEvery - 1 ? chat(index, random) : program(index, random)
    },
  }
}

function chat(index: number, random: RandomSource): WorkItem {
  const inputTokens = draw(chatTokens, random)
  const prompt = [{ key: `chat ${index}`, tokens: inputTokens }]
  return { prompt, inputTokens, outputTokens: draw(chatAnswerTokens, random) }
}

function program(index: number, random: RandomSource): WorkItem {
  const agent = Math.floor(random() * agents)
  const length = lengthOf(random)
  let item: WorkItem | undefined
  for (let turn = length - 1; turn >= 0; turn--) {
    const isFirst = turn === 0
    const tokens = draw(isFirst ? taskTokens : toolTokens, random)
    const own = { key: `program ${index} turn ${turn}`, tokens }
    const prompt = isFirst ? [{ key: `agent ${agent}`, tokens: systemTokens }, own] : [own]
    item = {
      prompt,
      inputTokens: tokens + (isFirst ? systemTokens : 0),
      outputTokens: draw(answerTokens, random),
      ...(!isFirst && { pauseMs: pause(random) }),
      ...(item !== undefined && { next: item }),
    }
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

function pause(random: RandomSource): number {
  const place = random()
  const [, from, to] = pauses.find(([share]) => place < share) ?? pauses[0]!
  return Math.round(from * (to / from) ** random())
}
