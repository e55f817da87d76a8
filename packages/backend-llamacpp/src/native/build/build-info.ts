import { attempt } from '@cllm/core'
import { z } from 'zod'
import { llamaVersion, nodeLlamaCppVersion } from '../native.js'

/** The library's threads: OpenMP's, or llama.cpp's own (`plain`). */
export const variants = ['plain', 'openmp'] as const

/** A way to build the library. */
export type Variant = (typeof variants)[number]

const candidate = z.enum([...variants, 'prebuilt'])

/** The libraries that are measured: the built variants, and node-llama-cpp's. */
export type Candidate = z.infer<typeof candidate>

/** The numbers of sequences that decode at once in the measurement. */
export const measuredWidths = [1, 8, 16] as const

const rate = z.number().positive()

/** Checks {@link Figures}. */
export const figuresSchema = z.object({
  /** Tokens per second of one prompt. */
  prefill: rate,
  /** Tokens per second of all sequences together, in the order of {@link measuredWidths}. */
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
  /** The CPU's instruction sets, by the operating system's names; empty if it does not tell them. */
  features: z.array(z.string()),
})

/** The properties of a machine that decide whether a library runs on it. */
export type Machine = z.infer<typeof machineSchema>

/** Checks {@link BuildInfo}. */
export const buildInfoSchema = z.object({
  /** The version of this format. */
  schema: z.literal(1),
  /** The library's file; null if the prebuilt library was the fastest. */
  library: z.string().nullable(),
  /** The file of the library for images and sounds; builds of earlier versions have none. */
  media: z.string().optional(),
  /** The length of `library` in bytes; missing in builds of earlier versions. */
  libraryBytes: z.int().min(1).optional(),
  fastest: candidate,
  llamaVersion: z.string(),
  nodeLlamaCppVersion: z.string(),
  machine: machineSchema,
  compiler: z.string(),
  /** The compiler flags of ggml's files, which do the computing. */
  flags: z.string(),
  /** ISO 8601. */
  builtAt: z.iso.datetime(),
  measured: z.object({
    model: z.string(),
    threads: z.int().min(1),
    figures: z.partialRecord(candidate, figuresSchema),
  }),
})

/** The description that is kept beside a library: its versions, its machine, and its speed. */
export type BuildInfo = z.infer<typeof buildInfoSchema>

/** Parses a {@link BuildInfo}; undefined if the text is not valid. */
export function parseBuildInfo(text: string): BuildInfo | undefined {
  return attempt(() => buildInfoSchema.safeParse(JSON.parse(text)).data)
}

/** The gain from which on a built library is used: smaller gains are within the noise of measurements. */
const leastGain = 1.01

/** How many times as fast one library is as another: the geometric mean over prefill and all widths. */
export function gainOver(figures: Figures, other: Figures): number {
  const ratios = rates(figures).map((rate, index) => rate / rates(other)[index]!)
  return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
}

/** The fastest of the measured libraries. */
export function fastestOf(
  figures: Readonly<Partial<Record<Candidate, Figures>>> & { readonly prebuilt: Figures },
): Candidate {
  let fastest: Candidate = 'prebuilt'
  let gain = leastGain
  for (const name of variants) {
    const own = figures[name]
    if (own === undefined || gainOver(own, figures.prebuilt) < gain) continue
    fastest = name
    gain = gainOver(own, figures.prebuilt)
  }
  return fastest
}

function rates({ prefill, decode }: Figures): number[] {
  return [prefill, ...decode]
}

/** The versions that libraries are built from now. */
export const currentVersions = { llamaVersion, nodeLlamaCppVersion } as const

/**
 * Why a library must not be loaded here; undefined: it may be loaded. A library with instructions that the CPU lacks
 * would end the process.
 */
export function incompatibility(info: BuildInfo, machine: Machine): string | undefined {
  const { platform, arch, cpu, features } = info.machine
  if (platform !== machine.platform || arch !== machine.arch) {
    return `it was built for ${platform} ${arch}, and this is ${machine.platform} ${machine.arch}`
  }
  if (cpu !== machine.cpu) return `it was built for the CPU ${cpu}, and this is ${machine.cpu}`
  const present = new Set(machine.features)
  const missing = features.filter((feature) => !present.has(feature))
  if (missing.length > 0) return `it was built for a CPU with ${missing.slice(0, 5).join(', ')}`
  if (info.nodeLlamaCppVersion !== nodeLlamaCppVersion) {
    return `it was built from node-llama-cpp ${info.nodeLlamaCppVersion}, and this is ${nodeLlamaCppVersion}`
  }
  if (info.llamaVersion !== llamaVersion) {
    return `it is llama.cpp ${info.llamaVersion}, and this is ${llamaVersion}`
  }
  return undefined
}
