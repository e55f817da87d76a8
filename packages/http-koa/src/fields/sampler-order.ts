import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'

/** llama-server's names in the order in which the steps run, with what switches each off. */
const steps: readonly (readonly [names: readonly string[], off: RequestSettings])[] = [
  [['penalties', 'e'], { repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 }],
  [['dry', 'd'], { dryMultiplier: 0 }],
  [['top_n_sigma', 'n', 's'], { topNSigma: 0 }],
  [['top_k', 'k'], { topK: 0 }],
  [['typ_p', 'typical_p', 'y'], { typicalP: 1 }],
  [['top_p', 'p'], { topP: 1 }],
  [['min_p', 'm'], { minP: 0 }],
  [['xtc', 'x'], { xtcProbability: 0 }],
  [['temperature', 't'], { temperature: 1, dynamicTemperatureRange: 0 }],
]
const ignored = new Set(['infill', 'i', 'adaptive_p', 'a'])

/** llama-server's `samplers`: their names, or one letter for each. */
export const samplersField = z
  .custom<string | readonly string[]>(
    (value) =>
      typeof value === 'string' ||
      (Array.isArray(value) && value.every((name) => typeof name === 'string')),
    'the names of samplers',
  )
  .meta({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] })

/**
 * What switches off the samplers that a list leaves out.
 *
 * @throws `invalid_request` for an unknown name, `unsupported` for another order than the engine's
 */
export function samplersLeftOut(given: string | readonly string[] | undefined): RequestSettings {
  if (given === undefined) return {}
  const names = typeof given === 'string' ? Array.from(given) : given
  const details = { field: 'samplers' }
  const places = names
    .filter((name) => !ignored.has(name))
    .map((name) => {
      const place = steps.findIndex(([known]) => known.includes(name))
      if (place >= 0) return place
      const expected = steps.map(([[known]]) => known).join(', ')
      const message = `samplers: expected ${expected}, instead got ${name.slice(0, 40)}`
      throw new CllmError('invalid_request', message, { details })
    })
  if (places.some((place, index) => index > 0 && place < places[index - 1]!)) {
    const order = steps.map(([[known]]) => known).join(', ')
    throw new CllmError('unsupported', `samplers: they run in the order ${order}`, { details })
  }
  const off = steps.filter((_, place) => !places.includes(place)).map(([, settings]) => settings)
  return Object.assign({}, ...off) as RequestSettings
}
