import type { Attachment, Conversation, MediaFile } from './conversation.js'

/** What a model reads, as the list of models says it. */
export type Modality = 'text' | 'image' | 'audio'

/** The most bytes of images and sounds that a conversation keeps: each question sends all of them again. */
export const mostMediaBytes = 20_000_000

/** Tells images and sounds from texts. */
export const isMedia = (file: Attachment): file is MediaFile => 'data' in file

/** The bytes of the images and sounds among files. */
export const mediaBytes = (files: readonly Attachment[]): number =>
  files.reduce((sum, file) => sum + (isMedia(file) ? file.data.size : 0), 0)

/** A `data:` URL of a file's bytes. */
export async function dataUrlOf(data: Blob): Promise<string> {
  const bytes = new Uint8Array(await data.arrayBuffer())
  let letters = ''
  // A call takes a limited number of arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    letters += String.fromCharCode(...bytes.subarray(at, at + 8192))
  }
  return `data:${data.type};base64,${btoa(letters)}`
}

type Saved = Omit<MediaFile, 'data'> & { readonly data: string }

/** A conversation as a file keeps it: images and sounds as `data:` URLs. */
export async function toJson(conversation: Conversation): Promise<string> {
  const inFile = async (file: Attachment) =>
    isMedia(file) ? { ...file, data: await dataUrlOf(file.data) } : file
  const turns = conversation.turns.map(async (turn) => {
    return { ...turn, ...(turn.files && { files: await Promise.all(turn.files.map(inFile)) }) }
  })
  return JSON.stringify({ ...conversation, turns: await Promise.all(turns) }, null, 2)
}

/** What {@link toJson} wrote, with its images and sounds as they were. */
export function fromSaved(file: Attachment | Saved): Attachment {
  if (!('data' in file) || typeof file.data !== 'string') return file as Attachment
  const [, type = '', base64 = ''] = /^data:([^;,]*);base64,(.*)$/.exec(file.data) ?? []
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  return { ...file, data: new Blob([bytes], { type }) }
}
