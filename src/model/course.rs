//! A number over the whole run, in bounded room.

/// Means of equally many values each, which double in number when there are too many of them: a few kilobytes for any run. Values are counted
/// and not placed by their steps, whose numbers begin anew with each epoch of some trainers.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// All but the last are complete.
    spans: Vec<Span>,
    /// How many values a span takes.
    each: u32,
    /// The least and the greatest of all values.
    range: Option<(f32, f32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Span {
    sum: f64,
    values: u32,
}

impl Span {
    fn and(self, other: Span) -> Span {
        Span { sum: self.sum + other.sum, values: self.values + other.values }
    }

    fn mean(self) -> Option<f32> {
        (self.values > 0).then(|| (self.sum / f64::from(self.values)) as f32)
    }
}

impl Default for Course {
    fn default() -> Self {
        Course { spans: Vec::new(), each: 1, range: None }
    }
}

impl Course {
    /// Two for each cell of a wide chart.
    pub const MOST: usize = 512;

    /// Adds the newest value. What is not finite has no place on a curve.
    pub fn push(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        let drawn = value as f32;
        self.range = Some(self.range.map_or((drawn, drawn), |(least, most)| (least.min(drawn), most.max(drawn))));
        if self.spans.last().is_none_or(|span| span.values >= self.each) {
            if self.spans.len() == Self::MOST {
                self.spans = self.spans.chunks(2).map(|two| two.iter().copied().fold(Span::default(), Span::and)).collect();
                self.each = self.each.saturating_mul(2);
            }
            self.spans.push(Span::default());
        }
        if let Some(newest) = self.spans.last_mut() {
            *newest = newest.and(Span { sum: value, values: 1 });
        }
    }

    /// How many values it was given.
    pub fn values(&self) -> u64 {
        self.spans.iter().map(|span| u64::from(span.values)).sum()
    }

    /// The least and the greatest of them.
    pub fn range(&self) -> Option<(f32, f32)> {
        self.range
    }

    /// The means over so many columns, the oldest value in the first and the newest in the last. Few values stand in several columns each.
    pub fn columns(&self, columns: usize) -> Vec<Option<f32>> {
        let n = self.spans.len();
        let span = |column: usize| {
            let from = column * n / columns;
            let to = ((column + 1) * n).div_ceil(columns).max(from + 1);
            self.spans.get(from..to.min(n)).unwrap_or(&[]).iter().copied().fold(Span::default(), Span::and).mean()
        };
        (0..columns).map(span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_shape_in_little_room() {
        let mut course = Course::default();
        (0..1_000_000).for_each(|i| course.push(f64::from(i)));
        course.push(f64::NAN);
        assert_eq!((course.values(), course.range()), (1_000_000, Some((0.0, 999_999.0))));
        assert!(course.spans.len() <= Course::MOST && course.spans.len() > Course::MOST / 4, "{}", course.spans.len());
        let means: Vec<f32> = course.columns(10).into_iter().flatten().collect();
        assert_eq!(means.len(), 10);
        assert!(means.windows(2).all(|pair| pair[0] < pair[1]) && (means[0] - 50_000.0).abs() < 5_000.0, "{means:?}");
    }

    #[test]
    fn few_values_fill_the_width() {
        let mut course = Course::default();
        assert_eq!(course.columns(2), [None, None]);
        course.push(1.0);
        course.push(3.0);
        assert_eq!(course.columns(4), [Some(1.0), Some(1.0), Some(3.0), Some(3.0)]);
    }
}
