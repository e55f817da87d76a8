import { z } from 'zod'
import { schemaOf } from './schema-of.js'

/** The least and most elements of a list, each with its message. */
export interface ListBounds {
  readonly least?: readonly [count: number, expected: string]
  readonly most?: readonly [count: number, expected: string]
}

/**
 * An array of elements. Checking stops at the first invalid element: zod's own arrays report every
 * one, which takes gigabytes for a body of a million zeros.
 */
export const list = <Element extends z.ZodType>(
  element: Element,
  expected: string,
  { least = [0, expected], most = [Infinity, expected] }: ListBounds = {},
) =>
  z
    .custom<readonly z.input<Element>[]>(Array.isArray, expected)
    .meta({
      type: 'array',
      items: schemaOf(element),
      ...(least[0] > 0 && { minItems: least[0] }),
      ...(most[0] < Infinity && { maxItems: most[0] }),
    })
    .transform((values, ctx): z.output<Element>[] => {
      const bound = [values.length < least[0] && least[1], values.length > most[0] && most[1]]
      const message = bound.find((each) => each !== false)
      if (message !== undefined) {
        ctx.addIssue({ code: 'custom', message })
        return z.NEVER
      }
      const checked: z.output<Element>[] = []
      for (const [index, value] of values.entries()) {
        const result = element.safeParse(value)
        if (!result.success) {
          const [issue] = result.error.issues
          const path = [index, ...(issue?.path ?? [])]
          ctx.addIssue({ code: 'custom', message: issue?.message ?? expected, path })
          return z.NEVER
        }
        checked.push(result.data)
      }
      return checked
    })
