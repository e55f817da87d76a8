import { z } from 'zod'

const ms = z.number()
const count = z.int().nonnegative()
const positive = z.int().min(1)

/** The arrival and end of a request, without its content. */
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

/** A step, compact: a `StepRecord` in short. */
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

/** The engine's process came or went. */
const change = z.object({
  atMs: ms,
  change: z.enum(['ready', 'gone']),
  reason: z.string().optional(),
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
  engines: positive.optional().describe('Engines that share the requests; absent: one.'),
  limits: z.object({
    slots: positive,
    contextSize: positive.describe('Tokens per slot.'),
    batchSize: positive.describe('Tokens per step.'),
    chunkMultiple: positive.optional(),
    kvTokens: positive
      .optional()
      .describe('Tokens of all slots together; absent where each has a context of its own.'),
  }),
  policy: z.string().describe('In force at the end.'),
  policyOptions: z.record(z.string(), z.unknown()),
  blockTokens: positive.describe('Tokens of a block.'),
  arrivals: z.array(arrival),
  steps: z.array(step),
  engine: z.array(change),
})

/** The type of what a schema reads, which nobody changes. */
type Written<T> = T extends object
  ? { readonly [Name in keyof T]: Written<Exclude<T[Name], undefined>> }
  : T

/** What the flight recorder has of the last minutes: enough to simulate them with any policy. */
export type Recording = Written<z.infer<typeof recordingSchema>>

/** The arrival and end of a request, without its content. */
export type ArrivalRecord = Recording['arrivals'][number]

/** A step as the flight recorder keeps it, `atMs` by the clock: a compact `StepRecord`. */
export type RecordedStep = Recording['steps'][number]

/** The engine's process came or went. */
export type EngineChange = Recording['engine'][number]

/** How much the flight recorder holds now. */
export interface RecorderStatistics {
  readonly arrivals: number
  readonly steps: number
  /** The memory that they take, about. */
  readonly bytes: number
}
