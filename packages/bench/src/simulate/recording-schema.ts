import type { Recording } from '@cllm/core'
import { z } from 'zod'
import { parseJson } from '../datasets/parse-json.js'

const ms = z.number()
const count = z.int().nonnegative()

const arrival = z.object({
  id: z.string(),
  atMs: ms.describe('When it came; of requests from before the beginning negative.'),
  promptTokens: count
    .optional()
    .describe('Absent of requests that were refused before their prompt was read.'),
  maxTokens: count.optional(),
  priority: z.number().optional(),
  deadlineMs: ms.optional(),
  timeoutMs: ms.optional(),
  tenant: z.string().optional(),
  session: count.optional().describe('A number that identifies its session.'),
  stepGroup: z.string().optional(),
  cache: z.boolean().optional(),
  blocks: z
    .array(count)
    .describe(
      'A number for each whole block of the prompt and all before it: equal where two prompts ' +
        'begin with the same tokens.',
    ),
  tokens: count.describe('Tokens that its client had.'),
  firstTokenMs: ms.optional().describe('From its arrival, as endMs.'),
  endMs: ms.optional().describe('Absent of requests under way.'),
  end: z.string().optional().describe('`done`, or the code of its error.'),
})

const engine = count.describe('The number of the engine, from 0; absent where there is one.')

const step = z.object({
  atMs: ms,
  ms,
  decodeMs: ms.describe("In the backend's forward pass."),
  sampleMs: ms.describe("In the backend's sampling."),
  decode: count.describe('Requests that computed their next token.'),
  context: count.describe('Tokens in their slots before.'),
  chunks: z
    .array(z.tuple([count, count]))
    .describe('Prompt chunks: their tokens, and the tokens in the slot before.'),
  drafts: z
    .object({
      sequences: count.describe('Requests that verified drafts.'),
      tokens: count.describe('Draft tokens.'),
      accepted: count.describe('Those that were drawn.'),
    })
    .optional()
    .describe('Of the requests that decode, those with drafts; absent: none.'),
  engine: engine.optional(),
})

/** The JSON of `GET /admin/recorder` and of crash files; times are milliseconds from `beginsAt`. */
export const recordingSchema = z.object({
  schema: z.literal(1),
  kind: z.literal('recording'),
  reason: z.string().describe('`asked`, or of what the engine died.'),
  beginsAt: ms.describe('Milliseconds since the epoch.'),
  durationMs: ms,
  model: z.string(),
  engines: z.int().min(1).optional().describe('Engines that share the requests; absent: one.'),
  limits: z.object({
    slots: z.int().min(1),
    contextSize: z.int().min(1).describe('Tokens per slot.'),
    batchSize: z.int().min(1).describe('Tokens per step.'),
    chunkMultiple: z.int().min(1).optional(),
    kvTokens: z
      .int()
      .min(1)
      .optional()
      .describe('Tokens of all slots together; absent where each has a context of its own.'),
  }),
  policy: z.string().describe('In force at the end.'),
  policyOptions: z.record(z.string(), z.unknown()),
  blockTokens: z.int().min(1).describe('Tokens of a block.'),
  arrivals: z.array(arrival),
  steps: z.array(step),
  engine: z.array(
    z.object({
      atMs: ms,
      change: z.enum(['ready', 'gone']),
      reason: z.string().optional(),
      engine: engine.optional(),
    }),
  ),
})

/** The same as a JSON Schema. */
export function recordingJsonSchema(): object {
  return z.toJSONSchema(recordingSchema, { io: 'input' })
}

/**
 * The recording in a text.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset` naming the file and its problem
 */
export const parseRecording = (text: string, file: string): Recording =>
  parseJson(text, file, recordingSchema) as Recording
