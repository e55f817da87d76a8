import { type Attachment, isMedia, type MediaFile } from '../conversation.js'
import { AudioLines, FileText } from 'lucide'
import { useEffect, useState } from 'preact/hooks'
import { Icon } from '../../parts/icon.js'

/** A kind of input, as the server's list of models names it. */
export type Modality = 'text' | 'image' | 'audio'

/** A pasted text of more letters becomes a file, so that the question stays readable. */
export const longPaste = 2000

const mostTextBytes = 2_000_000
const mostPdfBytes = 20_000_000
const mostSoundBytes = 8_000_000
/** Larger images are scaled down to this many pixels a side: models see no more, and the browser stores them. */
const mostPixels = 1536
const mostPictureBytes = 1_000_000

/** The types of sounds that servers take, with their names in browsers. */
const sounds = [
  ['audio/wav', /wave?$/],
  ['audio/mpeg', /mpeg$|mp3$/],
  ['audio/flac', /flac$/],
] as const

/**
 * Reads a file for a question to a model that takes these inputs.
 *
 * @throws Error when the model could not read the file, in words for the user
 */
export async function readAttachment(
  file: File,
  inputs: readonly Modality[] | undefined,
): Promise<Attachment> {
  const { name, type } = file
  // An SVG is read as the text that it is.
  const kind = /^(image|audio)\/(?!svg)/.exec(type)?.[1]
  if (kind === 'image' || kind === 'audio') {
    const isTaken = inputs === undefined || inputs.includes(kind)
    const what = kind === 'image' ? 'images' : 'sounds'
    if (!isTaken) throw new Error(`${name}: this model takes no ${what}`)
    return { name, type: kind, data: await (kind === 'image' ? picture(file) : sound(file)) }
  }
  if (type === 'application/pdf') {
    withinLimit(file, mostPdfBytes)
    const { readPdf } = await import('./read-pdf.js')
    const text = await readPdf(await file.arrayBuffer())
    if (text.trim() === '') throw new Error(`${name}: no text in it, only pictures of pages`)
    withinLimit({ name, size: text.length }, mostTextBytes)
    return { name, text }
  }
  withinLimit(file, mostTextBytes)
  const text = await file.text()
  // Binary files have bytes that texts do not have.
  if (/[\0\uFFFD]/.test(text.slice(0, 4096))) throw new Error(`${name}: not a text file`)
  return { name, text }
}

function withinLimit({ name, size }: Pick<File, 'name' | 'size'>, most: number): void {
  if (size > most) throw new Error(`${name}: more than ${most / 1e6} MB`)
}

async function sound(file: File): Promise<Blob> {
  const type = sounds.find(([, names]) => names.test(file.type))?.[0]
  if (type === undefined) throw new Error(`${file.name}: expected WAV, MP3 or FLAC`)
  withinLimit(file, mostSoundBytes)
  return new Blob([file], { type })
}

/** An image in a format that every server reads, scaled down to what a model sees. */
async function picture(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name}: no image that this browser reads`)
  })
  const scale = Math.min(1, mostPixels / Math.max(bitmap.width, bitmap.height))
  const isCommon = file.type === 'image/png' || file.type === 'image/jpeg'
  if (isCommon && scale === 1 && file.size <= mostPictureBytes) {
    return new Blob([file], { type: file.type })
  }
  const width = Math.max(1, Math.round(bitmap.width * scale))
  const canvas = new OffscreenCanvas(width, Math.max(1, Math.round(bitmap.height * scale)))
  const context = canvas.getContext('2d')!
  context.fillStyle = 'white' // JPEG knows no transparency
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  return await canvas.convertToBlob({ type: 'image/jpeg', quality: 0.85 })
}

/** A thumbnail: the image itself, or an icon for the file's kind. */
export function Thumbnail({ file }: { readonly file: Attachment }) {
  if (!isMedia(file)) return <Icon of={FileText} />
  return file.type === 'image' ? <Media file={file} isDecoration /> : <Icon of={AudioLines} />
}

interface MediaProps {
  readonly file: MediaFile
  /** Whether the file's name stands beside it, so that it need not be read out. */
  readonly isDecoration?: boolean
}

/** An image, or a sound that can be played. */
export function Media({ file: { name, type, data }, isDecoration = false }: MediaProps) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    const made = URL.createObjectURL(data)
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, [data])
  if (url === undefined) return null
  if (type === 'audio') return <audio controls src={url} aria-label={name} />
  return <img src={url} alt={isDecoration ? '' : name} />
}
