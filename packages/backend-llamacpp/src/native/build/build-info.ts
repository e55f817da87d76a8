import { attempt } from '@cllm/core'
import { z } from 'zod'
import { llamaVersion, nodeLlamaCppVersion } from '../native.js'

/** How the library's threads work: on OpenMP, or on llama.cpp's own (`plain`). */
export const variants = ['plain', 'openmp'] as const

/** A way to build the library. */
export type Variant = (typeof variants)[number]

const candidate = z.enum([...variants, 'prebuilt'])

/** What is measured: the libraries that were built, and node-llama-cpp's. */
export type Candidate = z.infer<typeof candidate>

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
  /** The file of the library for images; builds of earlier versions have none. */
  media: z.string().optional(),
  /** How long the first is; builds of earlier versions do not say. */
  libraryBytes: z.int().min(1).optional(),
  fastest: candidate,
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
    figures: z.partialRecord(candidate, figuresSchema),
  }),
})

/** What is kept beside a library: what it was built from and for, and how fast it was. */
export type BuildInfo = z.infer<typeof buildInfoSchema>

/** The text as a {@link BuildInfo}; undefined when it is none. */
export function parseBuildInfo(text: string): BuildInfo | undefined {
  return attempt(() => buildInfoSchema.safeParse(JSON.parse(text)).data)
}

/** A library that was built is used from this gain on: less is within what measurements differ by. */
const leastGain = 1.01

/** How many times as fast as another, over prefill and all widths: the geometric mean. */
export function gainOver(figures: Figures, other: Figures): number {
  const ratios = rates(figures).map((rate, index) => rate / rates(other)[index]!)
  return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
}

/** The fastest of those that were measured. */
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

/** The versions that a library is built from now. */
export const currentVersions = { llamaVersion, nodeLlamaCppVersion } as const

/**
 * Why a library must not be loaded here; undefined when it may be. One with instructions that the CPU
 * lacks would end the process.
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
