import type { JSX } from 'preact'

/** The beginning of a request's id, which leads to what happened to it. */
export function RequestLink({ id }: { readonly id: string }): JSX.Element {
  return (
    <a href={`#scheduler/${id}`} title={id}>
      {id.slice(0, 8)}
    </a>
  )
}
