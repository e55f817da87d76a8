import { z } from 'zod'

/** How the library's threads work: on OpenMP, or on llama.cpp's own (`plain`). */
export const variants = ['plain', 'openmp'] as const

/** A way to build the library. */
export type Variant = (typeof variants)[number]

/** What is measured: the libraries that were built, and node-llama-cpp's. */
export type Candidate = Variant | 'prebuilt'

/** Sequences that decode side by side in the measurement. */
export const measuredWidths = [1, 8, 16] as const

const rate = z.number().positive()

/** Checks {@link Figures}. */
export const figuresSchema = z.object({
  /** Of one prompt. */
  prefill: rate,
  /** Of all sequences together, in the order of {@link measuredWidths}. */
  decode: z.tuple([rate, rate, rate]),
})

/** Tokens per second of one library: of one prompt, and of 1, 8 and 16 sequences together. */
export type Figures = z.infer<typeof figuresSchema>

/** Checks a {@link Machine}. */
export const machineSchema = z.object({
  platform: z.string(),
  arch: z.string(),
  /** The CPU's name. */
  cpu: z.string(),
  /** The instructions that it has, as the operating system names them; empty where it does not. */
  features: z.array(z.string()),
})

/** What decides whether a library runs. */
export type Machine = z.infer<typeof machineSchema>

/** What is kept beside a library. */
export const buildInfoSchema = z.object({
  /** The form of this text. */
  schema: z.literal(1),
  /** The library's file; null where the prebuilt library was the fastest. */
  library: z.string().nullable(),
  /** How long that is; builds of earlier versions do not say. */
  libraryBytes: z.int().min(1).optional(),
  fastest: z.enum([...variants, 'prebuilt']),
  llamaVersion: z.string(),
  nodeLlamaCppVersion: z.string(),
  machine: machineSchema,
  compiler: z.string(),
  /** Of the files that compute. */
  flags: z.string(),
  /** ISO 8601. */
  builtAt: z.iso.datetime(),
  measured: z.object({
    model: z.string(),
    threads: z.int().min(1),
    figures: z.partialRecord(z.enum([...variants, 'prebuilt']), figuresSchema),
  }),
})

/** What is kept beside a library: what it was built from and for, and how fast it was. */
export type BuildInfo = z.infer<typeof buildInfoSchema>

/** The text as a {@link BuildInfo}; undefined when it is none. */
export function parseBuildInfo(text: string): BuildInfo | undefined {
  try {
    return buildInfoSchema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
