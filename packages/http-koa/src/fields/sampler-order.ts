import { CllmError, samplingRows } from '@cllm/core'
import { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'

/** llama-server's steps in the order in which they run: each by its name, others and a letter. */
const steps: readonly (readonly [name: string, ...others: string[]])[] = [
  ['penalties', 'e'],
  ['dry', 'd'],
  ['top_n_sigma', 'n', 's'],
  ['top_k', 'k'],
  ['typ_p', 'typical_p', 'y'],
  ['top_p', 'p'],
  ['min_p', 'm'],
  ['xtc', 'x'],
  ['temperature', 't'],
]

/** The names of the steps, in their order. */
export const samplerSteps: readonly string[] = steps.map(([name]) => name)

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
      const place = steps.findIndex((known) => known.includes(name))
      if (place >= 0) return place
      const expected = samplerSteps.join(', ')
      const message = `samplers: expected ${expected}, instead got ${name.slice(0, 40)}`
      throw new CllmError('invalid_request', message, { details })
    })
  if (places.some((place, index) => index > 0 && place < places[index - 1]!)) {
    const order = samplerSteps.join(', ')
    throw new CllmError('unsupported', `samplers: they run in the order ${order}`, { details })
  }
  const left = samplerSteps.filter((_, place) => !places.includes(place))
  const off = samplingRows.filter(([, { step = '' }]) => left.includes(step))
  return Object.fromEntries(off.map(([name, row]) => [name, row.off ?? row.default]))
}
